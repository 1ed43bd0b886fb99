// Cells come as the chapter's slide types say. What does not fit on a slide goes on to another one below it, so
// that nothing overflows whatever fonts a machine has. Only one thing that is too tall by itself is made smaller.
"use strict";

const WIDTH = 1280, HEIGHT = 720, ROOM = 690; // pixels; deck.css has the width, too
const WHOLE = "pre, table, img, svg, math, p, ul, ol";

const tall = (element) => element.getBoundingClientRect().height;
const severalOutputs = (element) => element?.querySelectorAll(".jp-OutputArea-child").length > 1;

function pieces(section) {
  return [...section.children].filter((child) => !child.matches("aside.notes"));
}

function takeLast(piece) {
  // Takes the last part out of a piece that is too tall and gives it in the same frames; null where it is one thing.
  const frames = [];
  let node = piece;
  while (!node.matches(WHOLE) && (node.children.length === 1 || severalOutputs(node.lastElementChild))) {
    frames.push(node);
    node = node.lastElementChild;
  }
  let last;
  if (node.matches(".highlight pre")) last = takeLines(node, tall(piece) - tall(node));
  else if (!node.matches(WHOLE) && node.children.length > 1) {
    frames.push(node);
    last = node.lastElementChild;
  }
  if (!last) return null;
  return frames.reverse().reduce((inside, frame) => {
    const copy = frame.cloneNode(false);
    copy.append(inside);
    return copy;
  }, last);
}

function takeLines(pre, around) {
  // The lines of code that find no room, from an empty line on where there is one in the second half of what fits.
  const lines = pre.textContent.replace(/\n+$/, "").split("\n");
  const fit = Math.floor((lines.length * (ROOM - around)) / tall(pre)) - 1;
  if (fit < 2 || fit >= lines.length) return null;
  const empty = lines.slice(0, fit + 1).findLastIndex((line) => !line.trim());
  const kept = empty > fit / 2 ? empty : fit;
  const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
  let left = lines.slice(0, kept).join("\n").length, text = walker.nextNode();
  for (; text.length < left; text = walker.nextNode()) left -= text.length;
  const range = document.createRange();
  range.setStart(text, left);
  range.setEndAfter(pre.lastChild);
  const rest = pre.cloneNode(false);
  rest.append(range.extractContents());
  const first = document.createTreeWalker(rest, NodeFilter.SHOW_TEXT);
  for (let start = first.nextNode(); start; start = first.nextNode()) { // no empty lines at the top
    start.data = start.data.replace(/^\n+/, "");
    if (start.data) break;
  }
  return rest;
}

function shrinkPictures(piece) {
  // Keeps a cell's code and its pictures together where these may be somewhat smaller; whether that was enough.
  const shown = piece.querySelector(".jp-Cell-outputWrapper");
  if (!shown || !shown.querySelector("img, svg")) return false;
  const scale = (ROOM - (tall(piece) - tall(shown))) / tall(shown);
  if (scale < (shown.querySelectorAll("img, svg").length > 1 ? 0.85 : 0.6)) return false;
  shown.style.zoom = scale;
  return true;
}

function paginate(stack) {
  // Its slides are measured one by one; the loop comes to those that it adds.
  const added = new Set();
  for (let section = stack.firstElementChild; section; section = section.nextElementSibling) {
    const parts = pieces(section);
    while (tall(section) > ROOM) {
      let rest = null;
      if (parts.length > 1) rest = parts.pop();
      else if (!shrinkPictures(parts[0])) rest = takeLast(parts[0]);
      if (!rest) {
        if (tall(section) > ROOM) parts[0].style.zoom = Math.max(0.5, ROOM / tall(parts[0]));
        break;
      }
      let next = section.nextElementSibling;
      if (!added.has(next)) {
        next = section.cloneNode(false);
        section.after(next);
        added.add(next);
      }
      next.prepend(rest);
    }
    const lead = section.firstElementChild; // a slide that goes on is not empty at first
    if (added.has(section) && lead && lead.matches(".fragment")) lead.classList.remove("fragment");
  }
}

function sayWhere() {
  // At the foot of a slide that has no heading of its own: the section that it belongs to.
  const slide = Reveal.getCurrentSlide();
  const heading = slide.parentElement.querySelector("h2")?.firstChild.textContent ?? "";
  document.querySelector(".where").textContent = slide.querySelector("h1, h2") ? "" : heading;
}

async function start() {
  await document.fonts.ready;
  await Promise.all([...document.images].map((image) => image.decode().catch(() => null)));
  document.querySelectorAll(".jp-Collapser, .jp-InputPrompt, .jp-OutputPrompt").forEach((part) => part.remove());
  document.documentElement.classList.add("measuring");
  for (const stack of document.querySelectorAll(".reveal .slides > section")) paginate(stack);
  document.documentElement.classList.remove("measuring");
  await Reveal.initialize({
    width: WIDTH, height: HEIGHT, margin: 0.02, center: false, hash: true, slideNumber: "c/t",
    transition: "none", plugins: [RevealNotes],
  });
  const where = document.createElement("div");
  where.className = "where";
  document.querySelector(".reveal").append(where);
  Reveal.on("slidechanged", sayWhere);
  sayWhere();
  document.documentElement.dataset.ready = "true";
}

start();

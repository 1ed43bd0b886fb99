// Cells come as the chapter's slide types say. What does not fit on a slide goes on to another one below it, so
// that nothing overflows whatever fonts a machine has. Text is divided by lines, a table by rows; only pictures
// are made smaller.
"use strict";

const WIDTH = 1280, HEIGHT = 720, ROOM = 690; // pixels; deck.css has the width, too
const MARK = 40; // for the line that says that a part goes on
const WHOLE = "pre, table, img, svg, math, p, ul, ol";

const tall = (element) => element.getBoundingClientRect().height;
const isCaption = (output) => output.querySelector("p > em:only-child") && output.previousElementSibling?.querySelector("img");
const severalOutputs = (element) =>
  [...(element?.querySelectorAll(".jp-OutputArea-child") ?? [])].filter((output) => !isCaption(output)).length > 1;

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
  const around = tall(piece) - tall(node);
  let last;
  if (node.matches("pre")) last = takeLines(node, around);
  else if (node.matches("table")) last = takeRows(node, around);
  else if (!node.matches(WHOLE) && node.children.length > 1) {
    frames.push(node);
    last = withItsPicture(node.lastElementChild);
  }
  if (!last) return null;
  return frames.reverse().reduce((inside, frame) => {
    const copy = frame.cloneNode(false);
    copy.append(inside);
    return copy;
  }, last);
}

function withItsPicture(last) {
  // A figure's sentence stays with the figure.
  if (!isCaption(last)) return last;
  const both = document.createDocumentFragment();
  both.append(last.previousElementSibling, last);
  return both;
}

function takeLines(pre, around) {
  // The lines that find no room, from an empty line on where there is one in the second half of what fits.
  if (!pre.textContent.trim()) return null;
  const lines = pre.textContent.trimEnd().split("\n");
  const ends = lines.map((line, i) => lines.slice(0, i + 1).join("\n").length);
  const room = pre.getBoundingClientRect().top + ROOM - around - MARK;
  const fit = ends.findLastIndex((end) => between(pre, 0, end).getBoundingClientRect().bottom < room) + 1;
  if (fit < 2 || fit >= lines.length) return null;
  const empty = lines.slice(0, fit + 1).findLastIndex((line) => !line.trim());
  const kept = empty > fit / 2 ? empty : fit;
  const next = kept + lines.slice(kept).findIndex((line) => line.trim()); // no empty lines at the top
  const rest = pre.cloneNode(false);
  rest.append(between(pre, ends[next - 1] + 1, pre.textContent.length).extractContents());
  between(pre, ends[kept - 1], pre.textContent.length).deleteContents();
  return goesOn(pre, rest);
}

function between(element, start, end) {
  // Its characters from `start` up to `end`, as a range.
  const range = document.createRange();
  const at = (offset) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    let text = walker.nextNode();
    for (; text.length < offset; text = walker.nextNode()) offset -= text.length;
    return [text, offset];
  };
  range.setStart(...at(start));
  range.setEnd(...at(end));
  return range;
}

function takeRows(table, around) {
  // The rows that find no room, under the same heads.
  const rows = [...table.rows];
  const room = table.getBoundingClientRect().top + ROOM - around - MARK;
  const fit = rows.findLastIndex((row) => row.getBoundingClientRect().bottom < room) + 1;
  if (fit < 2 || fit >= rows.length) return null;
  const rest = table.cloneNode(false);
  if ([...rows[0].cells].every((cell) => cell.matches("th"))) {
    [...rows[0].cells].forEach((cell) => { cell.style.width = `${cell.getBoundingClientRect().width}px`; });
    rest.append(rows[0].cloneNode(true));
  }
  rest.append(...rows.slice(fit));
  return goesOn(table, rest);
}

function goesOn(part, rest) {
  // Both say that they belong together.
  part.classList.add("goes-on");
  rest.classList.remove("goes-on");
  rest.classList.add("continued");
  return rest;
}

function shrinkPictures(piece) {
  // Keeps a cell's code and its pictures together where these may be somewhat smaller; whether that was enough.
  const pictures = [...piece.querySelectorAll(".jp-Cell-outputWrapper :is(img, svg)")];
  const height = pictures.reduce((sum, picture) => sum + tall(picture), 0);
  const scale = (ROOM - (tall(piece) - height)) / height;
  if (!pictures.length || scale < (pictures.length > 1 ? 0.85 : 0.6)) return false;
  for (const picture of pictures) picture.style.zoom = scale;
  return true;
}

function narrow(pre) {
  // Output with lines that find no room on the width is set as small as can still be read.
  const lines = pre.textContent.trimEnd().split("\n");
  if (tall(pre) > (lines.length + 0.5) * parseFloat(getComputedStyle(pre).lineHeight)) pre.classList.add("narrow");
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
  document.querySelectorAll(".jp-RenderedText pre").forEach(narrow);
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

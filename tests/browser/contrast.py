"""Whether text can be read on what stands behind it: what a page's JavaScript needs to tell."""

# ``faint(parts)``: those of the elements whose own text has a contrast below 4.5 (WCAG 2.2, AA)
FAINT = """
const linear = (part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
const level = (part) => linear(part / 255);
const light = ([r, g, b]) => 0.2126 * level(r) + 0.7152 * level(g) + 0.0722 * level(b);
const paper = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const color = (name, ground) => {  // whatever way CSS writes it; one that lets the ground through, upon it
    paper.clearRect(0, 0, 1, 1);
    for (const style of ground ? [`rgb(${ground})`, name] : [name]) {
        paper.fillStyle = style;
        paper.fillRect(0, 0, 1, 1);
    }
    const [r, g, b, a] = paper.getImageData(0, 0, 1, 1).data;
    return {rgb: [r, g, b], opaque: a > 128};
};
const colors = new Map();
const seen = (name, ground) => {
    const key = `${name} ${ground}`;
    return colors.get(key) || colors.set(key, color(name, ground)).get(key);
};
const behind = (part) => {
    for (let at = part; at; at = at.parentElement) {
        const found = seen(getComputedStyle(at).backgroundColor);
        if (found.opaque) return found.rgb;
    }
    return [255, 255, 255];
};
const saysSomething = (part) => [...part.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
const faint = (parts) => parts.flatMap((part) => {
    if (!saysSomething(part) || !part.checkVisibility()) return [];
    const ground = behind(part);
    const [a, b] = [seen(getComputedStyle(part).color, ground).rgb, ground].map(light);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    return contrast < 4.5 ? [`${contrast.toFixed(1)} ${part.outerHTML.slice(0, 80)}`] : [];
});
"""

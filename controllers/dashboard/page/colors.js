// Colors: those of the theme, and those of slots.

const names = ["surface", "raised", "line", "ink", "dim", "accent", "free", "hidden", "bad", "bad-soft", "reserved", "running", "starting", "queued", "never", "releasing", "failed", "succeeded", "suspended"];
// The colors of slots are chosen from these lightnesses (in percent, by the theme), and from all hues.
const lightness = { light: [50, 58, 66], dark: [57, 68, 80] };
const chroma = 0.13, hueStep = 12, mostColors = 32;
const hueFirst = 0.4; // the weight of lightness, so that the first colors differ in hue

const dark = matchMedia("(prefers-color-scheme: dark)");
// probe gives any color of CSS as red, green and blue, which a canvas reads much faster.
const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
let theme, palette;

function read() {
  const style = getComputedStyle(document.documentElement);
  theme = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  palette = distant(mostColors);
}

export const themeColors = () => theme;
export function onThemeChange(then) {
  dark.addEventListener("change", () => {
    read();
    then();
  });
}

// distant chooses colors one by one: each is the candidate that is farthest from those before it, and from the
// marks of the map (Glasbey et al., 2007).
function distant(n) {
  const candidates = [];
  for (const l of lightness[dark.matches ? "dark" : "light"]) {
    for (let hue = 0; hue < 360; hue += hueStep) candidates.push(rgbOf(`oklch(${l}% ${chroma} ${hue})`));
  }
  const weighed = (rgb) => labOf(rgb).map((v, k) => (k ? v : v * hueFirst));
  const labs = candidates.map(weighed);
  const nearest = labs.map(() => Infinity);
  const leave = (lab) => labs.forEach((one, i) => { nearest[i] = Math.min(nearest[i], Math.hypot(...one.map((v, k) => v - lab[k]))); });
  for (const mark of ["free", "hidden", "bad"]) leave(weighed(rgbOf(theme[mark])));
  return Array.from({ length: n }, () => {
    const at = nearest.indexOf(Math.max(...nearest));
    leave(labs[at]);
    return `rgb(${candidates[at].join(" ")})`;
  });
}

function rgbOf(color) {
  probe.clearRect(0, 0, 1, 1);
  probe.fillStyle = color;
  probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

const linear = (rgb) => rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));

// labOf is a color in OKLab, where distances are as large as they look (Ottosson, 2020).
export function labOf(rgb) {
  const [r, g, b] = linear(rgb);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}

// contrast is the contrast of two colors of CSS, from 1 to 21 (WCAG 2).
export function contrast(one, other) {
  const [a, b] = [one, other].map((color) => {
    const [r, g, bl] = linear(rgbOf(color));
    return 0.2126 * r + 0.7152 * g + 0.0722 * bl + 0.05;
  });
  return Math.max(a, b) / Math.min(a, b);
}

// inkOn is black or white, whichever is read better on a color.
const inks = new Map();
export function inkOn(color) {
  if (!inks.has(color)) inks.set(color, contrast(color, "#000") > contrast(color, "#fff") ? "#000" : "#fff");
  return inks.get(color);
}

// Slots give each key a small number, and so a color. A key keeps its slot until it is gone, and the lowest free slot
// is given next: those that are there together have the most distant colors.
export class Slots {
  slots = new Map();
  taken = new Set();

  // keep gives slots to some keys, in their order, and frees the slots of all others.
  keep(keys) {
    const there = new Set(keys);
    for (const [key, slot] of this.slots) {
      if (!there.has(key)) {
        this.slots.delete(key);
        this.taken.delete(slot);
      }
    }
    for (const key of keys) this.color(key);
  }

  color(key) {
    let slot = this.slots.get(key);
    if (slot === undefined) {
      for (slot = 0; this.taken.has(slot); slot++);
      this.taken.add(slot);
      this.slots.set(key, slot);
    }
    return palette[slot % palette.length];
  }
}

// Of the queues, and of the MiniClusters that have nodes.
export const queueSlots = new Slots(), miniClusterSlots = new Slots();

export const stateColor = (state) => theme[{
  Running: "running", Starting: "starting", Releasing: "releasing", Queued: "queued", BackingOff: "queued", NeverFits: "never", Failed: "failed", Rejected: "failed", Succeeded: "succeeded",
}[state] || "suspended"];

read();

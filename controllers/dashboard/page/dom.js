// Makes elements and texts. Text becomes text nodes alone: no function here reads markup.

const svgSpace = "http://www.w3.org/2000/svg";

// el makes an element: el("td", {class: "number"}, "4", another).
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(svgSpace, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== ""));
  return element;
}

// setText changes an element's text if it differs.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const byId = (id) => document.getElementById(id);

// clock is the difference between the server's clock and this one, in seconds.
let clock = 0;
export function setClock(milliseconds) { clock = milliseconds / 1000 - Date.now() / 1000; }
export const now = () => Date.now() / 1000 + clock;

// lasts formats seconds: 45s, 3m 20s, 5h 12m, 3d 4h.
export function lasts(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${s % 60}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${Math.floor(s / 60) % 60}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor(s / 3600) % 24}h`;
}

export const clockTime = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
export const fullTime = (seconds) => new Date(seconds * 1000).toLocaleString();

export const plural = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;

// byName compares names as people count: n2 is before n10.
export const byName = new Intl.Collator("en", { numeric: true }).compare;

function hash(text) {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  h = Math.imul(h ^ (h >>> 15), 2246822519);
  return (h ^ (h >>> 13)) >>> 0;
}

// colorOf is a color for a name, the same each time.
const colors = new Map();
let theme = readTheme();
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const all = {};
  for (const name of ["ground", "surface", "raised", "line", "ink", "dim", "accent", "free", "hidden", "bad", "bad-soft", "reserved", "glow", "vivid", "running", "starting", "queued", "releasing", "failed", "succeeded", "suspended"]) {
    all[name] = style.getPropertyValue(`--${name}`).trim();
  }
  return all;
}
export const themeColors = () => theme;
export function onThemeChange(then) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    theme = readTheme();
    colors.clear();
    then();
  });
}
// plain is a color as rgb, which a canvas reads much faster.
const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function plain(color) {
  probe.fillStyle = color;
  probe.fillRect(0, 0, 1, 1);
  const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
  return `rgb(${r} ${g} ${b})`;
}

export function colorOf(name) {
  let color = colors.get(name);
  if (!color) {
    const h = hash(name);
    const lift = [-7, 0, 7][(h >>> 9) % 3];
    color = plain(`oklch(${parseFloat(theme.glow) + lift}% ${theme.vivid} ${h % 360})`);
    if (colors.size > 5000) colors.clear();
    colors.set(name, color);
  }
  return color;
}

// queueColor is a color for a queue. Those of the first queues differ most: the hues are a golden angle apart.
const queues = new Map();
export function queueColor(name) {
  if (!queues.has(name)) queues.set(name, queues.size);
  const i = queues.get(name);
  return `oklch(${parseFloat(theme.glow) + [0, -8, 8][i % 3]}% ${theme.vivid} ${(215 + i * 137.5) % 360})`;
}

export const stateColor = (state) => theme[{
  Running: "running", Starting: "starting", Releasing: "releasing", Queued: "queued", BackingOff: "queued", Failed: "failed", Rejected: "failed", Succeeded: "succeeded",
}[state] || "suspended"];

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

// lasts formats seconds as kubectl and the manager's messages do: 45s, 3m20s, 5h12m, 3d4h.
export function lasts(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${s % 60}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${Math.floor(s / 60) % 60}m`;
  return `${Math.floor(s / 86400)}d${Math.floor(s / 3600) % 24}h`;
}

// fullTime and time format seconds since 1970 in UTC, as the manager's messages do. time omits the day of today.
export const fullTime = (seconds) => new Date(seconds * 1000).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");
export function time(seconds) {
  const [day, clock] = [fullTime(seconds).slice(0, 10), fullTime(seconds).slice(11)];
  return day === fullTime(now()).slice(0, 10) ? clock : fullTime(seconds);
}

// plainTimes writes the times of a message (RFC 3339) as the page does. What is no time stays.
export const plainTimes = (text) => text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g, (found) => (isNaN(Date.parse(found)) ? found : time(Date.parse(found) / 1000)));

export const plural = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;

// byName compares names as people count: n2 is before n10.
export const byName = new Intl.Collator("en", { numeric: true }).compare;

// kindOf is the state of a MiniCluster, or NeverFits if it waits for what the cluster does not have.
export const kindOf = (mc) => (mc.state === "Queued" && mc.why === "NeverFits" ? "NeverFits" : mc.state);

// reasonOf is the message of a MiniCluster, unless that only counts the brokers that are up.
export const reasonOf = (mc) => (/^\d+ of \d+ brokers up$/.test(mc.message) ? "" : plainTimes(mc.message || ""));

// leftOf is the time that the command of a MiniCluster has left; "" if it does not run, or has no limit.
export const leftOf = (mc) => (mc.deadline && mc.started && !mc.ended ? lasts(mc.started + mc.deadline - now()) : "");

// swatch is a mark in a color, which may be given later.
export function swatch(color) {
  const mark = el("span", { class: "swatch", "aria-hidden": "true" });
  if (color) mark.style.background = color;
  return mark;
}

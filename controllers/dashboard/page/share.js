// The chart of the nodes that queues use.

import { el, svg, byName, plural, swatch, time } from "./dom.js";
import { queueSlots } from "./colors.js";

const width = 360, height = 130, left = 30, bottom = 18;
const mostQueues = 7;

export function share(parent, samples) {
  const all = [...samples.values()].sort((a, b) => a.at - b.at);
  if (all.length < 2) {
    parent.replaceChildren(el("p", { class: "empty" }, "The chart begins with the manager: a point every five seconds."));
    return;
  }
  const queues = busiest(all);
  const most = Math.max(1, ...all.map((s) => s.up), ...all.map((s) => total(s)));
  const first = all[0].at, last = all.at(-1).at;
  const x = (at) => left + ((at - first) / (last - first)) * (width - left);
  const y = (n) => (1 - n / most) * (height - bottom - 6) + 6;
  const layers = [];
  let floor = all.map(() => 0);
  for (const queue of queues) {
    const ceiling = all.map((s, i) => floor[i] + valueOf(s, queue, queues));
    const points = [...all.map((s, i) => `${x(s.at).toFixed(1)},${y(ceiling[i]).toFixed(1)}`), ...all.map((s, i) => `${x(s.at).toFixed(1)},${y(floor[i]).toFixed(1)}`).reverse()];
    const area = svg("polygon", { points: points.join(" ") });
    area.style.fill = queueSlots.color(queue);
    layers.push(area);
    floor = ceiling;
  }
  const up = svg("polyline", { class: "up", points: all.map((s) => `${x(s.at).toFixed(1)},${y(s.up).toFixed(1)}`).join(" ") });
  const now = all.at(-1);
  const said = `Nodes used by queue from ${time(first)} to ${time(last)}. Now ${now.up} nodes are up; ${queues.map((q) => `${q} uses ${valueOf(now, q, queues)}`).join(", ") || "no queue uses any"}.`;
  parent.replaceChildren(
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said },
      svg("line", { class: "grid", x1: left, x2: width, y1: y(0), y2: y(0) }),
      ...layers, up,
      svg("text", { x: left - 5, y: y(most) + 4, "text-anchor": "end" }, String(most)),
      svg("text", { x: left - 5, y: y(0) + 4, "text-anchor": "end" }, "0"),
      svg("text", { x: left, y: height - 2 }, time(first)),
      svg("text", { x: width, y: height - 2, "text-anchor": "end" }, time(last))),
    el("ul", { class: "legend" },
      ...queues.map((queue) => el("li", {}, swatch(queueSlots.color(queue)), el("bdi", {}, queue), plural(valueOf(now, queue, queues), "node"))),
      el("li", {}, el("span", { class: "swatch dashed", "aria-hidden": "true" }), `${plural(now.up, "node")} up`)));
}

const others = "(others)";
const total = (sample) => Object.values(sample.used || {}).reduce((sum, n) => sum + n, 0);

function valueOf(sample, queue, named) {
  const used = sample.used || {};
  if (queue !== others || Object.hasOwn(used, others)) return Object.hasOwn(used, queue) ? used[queue] : 0;
  return Object.entries(used).reduce((sum, [name, n]) => sum + (named.includes(name) ? 0 : n), 0);
}

// busiest are the queues that used the most nodes, by name, and one for all others.
function busiest(all) {
  const sums = new Map();
  for (const sample of all) for (const [queue, n] of Object.entries(sample.used || {})) sums.set(queue, (sums.get(queue) || 0) + n);
  const sorted = [...sums].sort((a, b) => b[1] - a[1]).map(([queue]) => queue);
  const named = sorted.slice(0, mostQueues).sort(byName);
  return sorted.length > mostQueues ? [...named, others] : named;
}

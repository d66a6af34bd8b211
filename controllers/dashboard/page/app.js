// The page: what the stream of the cluster changes, and where it is shown.

import { el, byId, byName, kindOf, lasts, leftOf, now, plural, reasonOf, setClock, setText, swatch, time } from "./dom.js";
import { miniClusterSlots, onThemeChange, queueSlots } from "./colors.js";
import { follow, Store, token } from "./stream.js";
import { legend, NodeMap, stateOf } from "./map.js";
import { Life } from "./life.js";
import { share } from "./share.js";
import { Table } from "./table.js";

const store = new Store("viewer", "nodes", "miniClusters", "queues", "reservations", "samples");
const order = ["Failed", "Rejected", "NeverFits", "Starting", "Running", "Releasing", "Queued", "BackingOff", "Suspended", "", "Succeeded"];
const finished = (mc) => Boolean(mc.ended);
const groups = {
  active: { title: "Active", has: (mc) => !finished(mc) },
  running: { title: "With nodes", has: (mc) => !finished(mc) && mc.admitted },
  waiting: { title: "Waiting", has: (mc) => !finished(mc) && !mc.admitted },
  finished: { title: "Finished", has: finished },
};
const choice = { group: "active", queue: "", text: "" };
let current = "", nodeTable, opener;

const open = (key) => { location.hash = `#/${key}`; };
const map = new NodeMap(byId("map"), store.miniClusters, open);
const life = new Life(byId("life"), () => { location.hash = ""; }, askForToken);
const upOf = (mc) => `${mc.up} of ${mc.has || mc.wanted}`;
const table = new Table(byId("table"), "MiniClusters", [
  { title: "Name", class: "c-name", head: true, text: (mc) => mc.name, link: (mc) => `#/${mc.key}`, color: (mc) => map.swatch(mc) },
  { title: "State", class: "c-state", text: (mc) => kindOf(mc) || "New", state: kindOf },
  { title: "Reason", class: "c-why", text: reasonOf },
  { title: "Command", class: "c-command", text: (mc) => mc.command || "" },
  { title: "User", class: "c-user", text: (mc) => mc.user },
  { title: "Namespace", class: "c-namespace", text: (mc) => mc.namespace },
  { title: "Queue", class: "c-queue", text: (mc) => (mc.position ? `${mc.queue} #${mc.position}` : mc.queue) },
  { title: "Brokers up", class: "c-size number", text: (mc) => (mc.has && mc.has !== mc.wanted ? `${upOf(mc)}, wants ${mc.wanted}` : upOf(mc)) },
  { title: "For", class: "c-time number", text: (mc) => lasts((mc.ended || now()) - (mc.started || mc.admitted || mc.created)) },
  { title: "Left", class: "c-left number", text: leftOf },
]);

let stopView;
function connect() {
  stopView?.();
  stopView = follow("/api/view", {
    delta: (delta, first) => {
      setClock(delta.now);
      changed(store.apply(delta, first));
    },
    status: (kind, why) => {
      const words = { live: "Live", lost: "Reconnecting", token: "A token is needed", gone: "Ended" };
      byId("connection").dataset.kind = kind === "live" ? "live" : "lost";
      byId("connection").title = why;
      setText(byId("connection"), words[kind]);
      if (kind === "token") askForToken(why);
    },
  });
}

// changed draws the parts of the page that show some kinds, in the next frame.
let due = new Set(), frame = 0;
function changed(kinds) {
  for (const kind of kinds) due.add(kind);
  frame ||= requestAnimationFrame(() => {
    const kinds = due;
    due = new Set();
    frame = 0;
    const any = (...some) => some.some((kind) => kinds.has(kind));
    if (any("miniClusters", "queues")) giveSlots();
    if (any("viewer")) drawViewer();
    if (any("nodes", "miniClusters", "viewer", "colors")) drawMap();
    if (any("miniClusters", "queues")) drawQueues();
    if (any("reservations")) drawReservations();
    if (any("samples", "viewer")) drawShare();
    if (any("nodes", "miniClusters", "choice", "colors")) drawTable();
    if (any("nodes", "miniClusters", "viewer")) drawTotals();
  });
}

// giveSlots gives colors to the queues in the order of their names, and to the MiniClusters with nodes as they came.
function giveSlots() {
  queueSlots.keep([...store.queues.keys()].sort(byName));
  miniClusterSlots.keep([...store.miniClusters.values()].filter(groups.running.has).sort((a, b) => a.admitted - b.admitted || byName(a.key, b.key)).map((mc) => mc.key));
}

const viewer = () => [...store.viewer.values()][0] || { levels: [] };

function drawViewer() {
  const v = viewer();
  setText(byId("viewer"), v.key || "");
  byId("viewer").title = v.key || "";
  const limits = [];
  if (!v.all) limits.push(`You see the MiniClusters of ${plural(v.namespaces, "namespace")}. On the map, those of other namespaces are in use without a name.`);
  setText(byId("limits"), limits.join(" "));
  byId("limits").hidden = limits.length === 0;
}

function drawTotals() {
  const counts = { up: 0, used: 0, down: 0 };
  for (const node of store.nodes.values()) {
    if (node.down) counts.down++;
    else counts.up++;
    if (node.by?.length) counts.used++;
  }
  const have = (group) => [...store.miniClusters.values()].filter(groups[group].has).length;
  const totals = [];
  if (viewer().nodes) {
    totals.push(["nodes in use", String(counts.used), ` of ${store.nodes.size}`], ["free", String([...store.nodes.values()].filter((n) => !n.down && !n.by?.length).length)]);
    if (counts.down) totals.push(["down or cordoned", String(counts.down)]);
  }
  const never = [...store.miniClusters.values()].filter((mc) => kindOf(mc) === "NeverFits").length;
  totals.push(["MiniClusters with nodes", String(have("running"))], ["MiniClusters waiting", String(have("waiting")), never ? `, ${never} never fit` : ""]);
  const text = JSON.stringify(totals);
  if (byId("totals").dataset.text === text) return;
  byId("totals").dataset.text = text;
  byId("totals").replaceChildren(...totals.map(([name, value, more]) => el("div", {}, el("dt", {}, name), el("dd", {}, value, more ? el("small", {}, more) : ""))));
}

function drawMap() {
  const v = viewer(), nodes = [...store.nodes.values()], asTable = byId("map-table-button").getAttribute("aria-pressed") === "true";
  byId("map-empty").hidden = nodes.length > 0;
  setText(byId("map-empty"), v.nodes ? "There are no nodes." : "You may not list nodes.");
  byId("map").hidden = nodes.length === 0 || asTable;
  byId("map-table").hidden = nodes.length === 0 || !asTable;
    byId("map").setAttribute("aria-label", `Map of ${plural(nodes.length, "node")}`);
  if (asTable) drawNodeTable(nodes, v.levels || []);
  else map.show(nodes, v.levels || [], current);
  legend(byId("map-legend"), nodes, map);
}

function drawNodeTable(nodes, levels) {
  const used = levels.map((level, i) => [level, i]).filter(([, i]) => nodes.some((node) => node.in?.[i]));
  const shape = used.join();
  if (!nodeTable || nodeTable.shape !== shape) {
    nodeTable = new Table(byId("map-table"), "Nodes", [
      { title: "Node", class: "c-name", head: true, text: (node) => node.key },
      ...used.map(([level, i]) => ({ title: level, class: "c-queue", text: (node) => node.in?.[i] || "" })),
      { title: "State", class: "c-why-node", text: stateOf },
      { title: "MiniClusters", class: "c-who", text: (node) => (node.by || []).map((one) => one.of || "others").join(", ") },
    ]);
    nodeTable.shape = shape;
  }
  nodeTable.show(nodes.sort((a, b) => byName(a.key, b.key)), "", "");
}

function drawQueues() {
  const queues = [...store.queues.values()].sort((a, b) => byName(a.key, b.key));
  const list = byId("queues");
  const focused = document.activeElement?.closest?.("#queues button")?.dataset.queue;
  list.replaceChildren(...queues.map(queueLine));
  if (focused !== undefined) [...list.querySelectorAll("button")].find((button) => button.dataset.queue === focused)?.focus();
  const names = ["", ...queues.map((queue) => queue.key)];
  const select = byId("in-queue");
  if (select.dataset.names !== names.join()) {
    select.dataset.names = names.join();
    select.replaceChildren(...names.map((name) => el("option", { value: name }, name || "all")));
    select.value = choice.queue;
  }
}

function queueLine(queue) {
  const percent = (text) => Math.round(parseFloat(text || "0") * 100);
  const color = queueSlots.color(queue.key);
  const parts = [el("span", { class: "queue-line" }, el("span", { class: "queue-name" }, swatch(color), el("bdi", {}, queue.key)),
    el("span", { class: "queue-counts" }, `${queue.admitted} with nodes, ${queue.pending} waiting`))];
  if (queue.listed && queue.share) {
    const used = el("i"), deserved = el("b");
    used.style.width = `${percent(queue.share)}%`;
    used.style.background = color;
    deserved.style.left = `calc(${percent(queue.deserved)}% - 1px)`;
    parts.push(el("span", { class: "meter", "aria-hidden": "true" }, used, queue.deserved ? deserved : ""));
    parts.at(-1).style.display = "block";
  }
  const notes = [];
  if (queue.suspended) notes.push("suspended: admits nothing");
  if (queue.listed && queue.share) notes.push(`${percent(queue.share)} % of the cluster` + (queue.deserved ? `, deserves ${percent(queue.deserved)} %` : ""));
  if (queue.ordering && queue.ordering !== "Priority") notes.push(queue.ordering);
  const head = [...store.miniClusters.values()].find((mc) => mc.queue === queue.key && mc.position === 1);
  if (head) notes.push(`next: ${head.name}`);
  if (notes.length) parts.push(el("span", { class: "queue-note", title: notes.join(" · ") }, notes.join(" · ")));
  return el("li", {}, el("button", { type: "button", "data-queue": queue.key, "aria-pressed": String(choice.queue === queue.key), onclick: () => choose({ queue: choice.queue === queue.key ? "" : queue.key }) }, ...parts));
}

function drawReservations() {
  const all = [...store.reservations.values()].sort((a, b) => a.from - b.from);
  byId("reservations").replaceChildren(...(all.length ? [el("h3", {}, "Reservations"), el("ul", {}, ...all.map((r) => el("li", {},
    el("strong", {}, el("bdi", {}, r.key)), ` ${plural(r.size, "node")} for ${r.queue ? `queue ${r.queue}` : "maintenance"}, ${time(r.from)} to ${time(r.until)}, ${r.phase.toLowerCase()}${r.staying ? `; ${plural(r.staying, "MiniCluster")} in the way` : ""}`)))] : []));
}

function drawShare() {
  byId("share").closest("section").hidden = !viewer().queues;
  if (viewer().queues) share(byId("share"), store.samples);
}

function drawTable() {
  const all = [...store.miniClusters.values()].filter((mc) => !choice.queue || mc.queue === choice.queue);
  const words = choice.text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? all.filter((mc) => {
    const text = `${mc.key} ${mc.user} ${mc.queue} ${mc.command} ${mc.state} ${mc.why} ${mc.message}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }) : all;
  for (const button of byId("states").children) {
    const group = button.dataset.group;
    setText(button, `${groups[group].title} ${found.filter(groups[group].has).length}`);
    button.setAttribute("aria-pressed", String(choice.group === group));
  }
  const shown = found.filter(groups[choice.group].has);
  const rank = new Map(order.map((state, i) => [state, i]));
  if (choice.group === "finished") shown.sort((a, b) => b.ended - a.ended || byName(a.key, b.key));
  else shown.sort((a, b) => rank.get(kindOf(a)) - rank.get(kindOf(b)) || byName(a.queue, b.queue) || (a.position || 1e9) - (b.position || 1e9) || byName(a.key, b.key));
  table.show(shown, current, all.length ? "No MiniCluster is of this kind." : "There are no MiniClusters.");
}

function choose(some) {
  Object.assign(choice, some);
  byId("in-queue").value = choice.queue;
  changed(["choice", "queues"]);
}

function route() {
  const key = location.hash.startsWith("#/") ? decodeURIComponent(location.hash.slice(2)) : "";
  if (key === current) return;
  if (key && !current) opener = document.activeElement;
  current = key;
  if (key && key.split("/").length === 2) {
    life.open(key);
  } else {
    life.end();
    if (opener?.isConnected) opener.focus();
  }
  changed(["choice", "nodes"]);
}

function askForToken(why) {
  stopView?.();
  setText(byId("token-error"), why || "");
  if (!byId("token").open) byId("token").showModal();
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token-text").value.trim());
  byId("token-text").value = "";
  byId("token").close();
  connect();
  if (current) life.open(current);
});
byId("token-forget").addEventListener("click", () => {
  token.forget();
  location.reload();
});
byId("token-button").addEventListener("click", () => byId("token").showModal());
byId("find").addEventListener("input", (event) => choose({ text: event.target.value }));
byId("in-queue").addEventListener("change", (event) => choose({ queue: event.target.value }));
byId("map-colour").addEventListener("change", (event) => {
  map.color = event.target.value;
  changed(["colors"]);
});
byId("map-table-button").addEventListener("click", (event) => {
  const pressed = event.target.getAttribute("aria-pressed") !== "true";
  event.target.setAttribute("aria-pressed", String(pressed));
  changed(["nodes"]);
});
byId("states").replaceChildren(...Object.keys(groups).map((group) => el("button", { type: "button", "data-group": group, onclick: () => choose({ group }) })));
addEventListener("hashchange", route);
onThemeChange(() => changed(store.kinds));
setInterval(() => { if (!document.hidden) table.draw(); }, 1000);
connect();
route();

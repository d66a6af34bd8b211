// The map of the nodes: a tile for each node, in boxes for racks, below headings for zones.

import { el, byId, byName, kindOf, plural, swatch } from "./dom.js";
import { inkOn, miniClusterSlots, queueSlots, stateColor, themeColors } from "./colors.js";
import { layout } from "./layout.js";

const pad = 7, line = 15; // of texts
const mostNamed = 8; // MiniClusters in the legend

export class NodeMap {
  // miniClusters are by key, and change with the cluster.
  constructor(element, miniClusters, open) {
    this.element = element;
    this.miniClusters = miniClusters;
    this.canvas = element.querySelector("canvas");
    this.tip = element.querySelector(".tip");
    this.frame = element.querySelector(".frame");
    this.said = byId("map-said");
    this.open = open;
    this.nodes = [];
    this.tiles = [];
    this.boxes = [];
    this.cursor = -1;
    this.color = "minicluster";
    new ResizeObserver(() => this.lay()).observe(element);
    element.addEventListener("pointermove", (event) => this.point(event));
    element.addEventListener("pointerleave", () => this.leave());
    element.addEventListener("click", (event) => {
      const at = this.find(event);
      if (at >= 0) this.enter(at);
    });
    element.addEventListener("keydown", (event) => this.press(event));
    element.addEventListener("focus", () => { if (element.matches(":focus-visible")) this.go(Math.max(0, this.cursor)); });
    element.addEventListener("blur", () => this.leave());
  }

  // show takes the nodes, the names of the levels and the key of the MiniCluster that is looked at.
  show(nodes, levels, current) {
    this.current = current;
    // The places depend on names and domains alone.
    const shape = nodes.length + " " + nodes.map((node) => node.key + (node.in || []).join()).join();
    if (shape !== this.shape) {
      this.shape = shape;
      this.group(nodes, levels);
      this.width = 0;
    }
    this.byKey = new Map(nodes.map((node) => [node.key, node]));
    this.lay();
    this.draw();
  }

  // group puts the names into zones and racks: the outermost and the innermost level that some node has.
  group(nodes, levels) {
    const used = levels.map((_, i) => nodes.some((node) => node.in?.[i]));
    const outer = used.indexOf(true), inner = used.lastIndexOf(true);
    const zones = new Map();
    for (const node of nodes) {
      const zone = outer >= 0 ? node.in?.[outer] || "" : "";
      const rack = inner > outer ? (node.in || []).slice(outer + 1, inner + 1).filter(Boolean).join(" / ") : "";
      if (!zones.has(zone)) zones.set(zone, new Map());
      const racks = zones.get(zone);
      if (!racks.has(rack)) racks.set(rack, []);
      racks.get(rack).push(node.key);
    }
    const sorted = (map) => [...map].sort(([a], [b]) => byName(a, b));
    this.zones = sorted(zones).map(([name, racks]) => ({
      name: outer >= 0 ? name || `without ${levels[outer]}` : "",
      racks: sorted(racks).map(([rack, keys]) => ({ name: rack, keys: keys.sort(byName) })),
    }));
  }

  // lay fills the box with tiles. If there are too many nodes for the box, the map scrolls.
  lay() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !this.zones || (width === this.width && height === this.height)) return;
    const { height: needed, ...placed } = layout(this.zones, width, height);
    Object.assign(this, placed, { width, height });
    const bottom = Math.max(height, Math.ceil(needed));
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(bottom * scale);
    this.canvas.style.height = `${bottom}px`;
    this.scale = scale;
    this.draw();
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
    });
  }

  paint() {
    const c = this.canvas.getContext("2d"), t = themeColors();
    if (!this.byKey || !this.scale) return;
    c.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    c.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const font = getComputedStyle(document.body).fontFamily;
    c.textBaseline = "top";
    for (const title of this.titles) {
      c.font = `600 13px ${font}`;
      c.fillStyle = t.ink;
      c.fillText(title.text, 0, title.y + 4);
      const w = c.measureText(title.text).width;
      c.font = `12px ${font}`;
      c.fillStyle = t.dim;
      c.fillText(plural(title.count, "node"), w + 10, title.y + 5);
    }
    c.font = `11px ${font}`;
    c.lineWidth = 1;
    for (const box of this.boxes.filter((one) => one.name)) {
      c.fillStyle = t.raised;
      round(c, box.x, box.y, box.w, box.h, 6);
      c.fill();
      c.fillStyle = t.dim;
      c.fillText(short(c, box.name, box.w - 2 * pad), box.x + pad, box.y + 7);
    }
    this.dims = this.current && [...this.byKey.values()].some((node) => node.by?.some((one) => one.of === this.current));
    for (const tile of this.tiles) this.tile(c, t, tile);
  }

  tile(c, t, tile) {
    const node = this.byKey.get(tile.key), { w, h } = this, r = h >= 12 ? 3 : 1.5;
    if (!node) return;
    const { x, y } = tile, by = node.by || [];
    c.globalAlpha = this.dims && !by.some((one) => one.of === this.current) ? 0.28 : 1;
    const wide = w / Math.min(by.length || 1, 4), high = Math.round(h * Math.max(0.25, (node.part || 100) / 100));
    if (by.length !== 1 || high < h) {
      c.fillStyle = isBad(node) ? t["bad-soft"] : t.free;
      block(c, x, y, w, h, r);
    }
    by.slice(0, 4).forEach((one, i) => {
      c.fillStyle = this.paintOf(one.of, t);
      block(c, x + i * wide, y + h - high, wide, high, r);
      if (!one.of) stripes(c, x + i * wide, y + h - high, wide, high, t.free);
    });
    this.marks(c, t, node, x, y, r);
    if (this.hasWords()) this.words(c, t, node, x, y, high);
    c.globalAlpha = 1;
  }

  marks(c, t, node, x, y, r) {
    const { w, h } = this, s = Math.min(w, h);
    if (node.reserved) {
      c.strokeStyle = t.reserved;
      c.lineWidth = s >= 12 ? 2 : 1.5;
      round(c, x + 1, y + 1, w - 2, h - 2, r);
      c.stroke();
    }
    if (node.down) {
      // In the middle, or in the corner below the words.
      const m = this.hasWords() ? Math.min(9, (h - 2 * line) / 2 - 2) : s / 4;
      const left = this.hasWords() ? x + w - 2 * m - 8 : x + w / 2 - m, top = this.hasWords() ? y + h - 2 * m - 6 : y + h / 2 - m;
      c.strokeStyle = t.bad;
      c.lineWidth = Math.min(3, Math.max(1.5, s / 12));
      c.beginPath();
      c.moveTo(left, top);
      c.lineTo(left + 2 * m, top + 2 * m);
      if (isBad(node)) {
        c.moveTo(left + 2 * m, top);
        c.lineTo(left, top + 2 * m);
      }
      c.stroke();
    }
    if (node.taint && s >= 9) {
      c.fillStyle = node.by?.length === 1 && node.part >= 100 ? inkOn(this.paintOf(node.by[0].of, t)) : t.dim;
      c.beginPath();
      c.arc(x + w - Math.min(9, s * 0.22), y + Math.min(9, s * 0.22), Math.min(4, Math.max(1, s * 0.09)), 0, 7);
      c.fill();
    }
  }

  hasWords() { return this.w >= 56 && this.h >= 3 * line; }

  // words are the name of a node and of what is there, if the tile is large enough.
  words(c, t, node, x, y, high) {
    const { w, h } = this, by = node.by || [], whole = by.length === 1 && high === h && by[0].of;
    const said = by.length ? by.map((one) => (one.of ? one.of.slice(one.of.indexOf("/") + 1) : "others")).join(", ") : node.down || (node.reserved ? "reserved" : "free");
    const font = getComputedStyle(document.body).fontFamily;
    c.fillStyle = whole ? inkOn(this.paintOf(by[0].of, t)) : t.ink;
    [[node.key, `11px ${font}`, y + 6], [said, `600 12px ${font}`, y + 6 + line]].forEach(([text, face, top]) => {
      c.font = face;
      const shown = short(c, text, w - 18);
      if (by.length && !whole) { // on several colors
        const ink = c.fillStyle;
        c.fillStyle = t.surface;
        block(c, x + 4, top - 2, c.measureText(shown).width + 8, line, 3);
        c.fillStyle = ink;
      }
      c.fillText(shown, x + 8, top);
    });
  }

  paintOf(key, t) {
    if (!key) return t.hidden;
    if (this.color === "minicluster") return miniClusterSlots.color(key);
    const mc = this.miniClusters.get(key);
    if (!mc) return t.hidden;
    return this.color === "queue" ? queueSlots.color(mc.queue) : stateColor(kindOf(mc));
  }

  // swatch is the color of a MiniCluster on the map; none if it has no nodes.
  swatch(mc) { return mc.admitted && !mc.ended ? this.paintOf(mc.key, themeColors()) : ""; }

  // meanings are the colors of the map, those of the most pods first. pods are by the key of the MiniCluster.
  meanings(pods) {
    const t = themeColors(), meaning = (key) => {
      const mc = this.miniClusters.get(key);
      if (this.color === "minicluster" || !mc) return key.slice(key.indexOf("/") + 1);
      return this.color === "queue" ? `queue ${mc.queue}` : kindOf(mc) || "New";
    };
    const all = new Map();
    for (const [key, n] of pods) {
      const one = { text: meaning(key), color: this.paintOf(key, t) }, id = this.color === "minicluster" ? key : one.text;
      all.set(id, { ...one, pods: n + (all.get(id)?.pods || 0) });
    }
    const sorted = [...all.values()].sort((a, b) => b.pods - a.pods || byName(a.text, b.text));
    const named = sorted.slice(0, mostNamed).map(({ text, color }) => ({ text, color }));
    return sorted.length > mostNamed ? [...named, { text: `and ${sorted.length - mostNamed} more, in their colors in the table` }] : named;
  }

  find(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, w = this.w + this.gap, h = this.h + this.gap;
    return this.tiles.findIndex((tile) => x >= tile.x && x < tile.x + w && y >= tile.y && y < tile.y + h);
  }

  point(event) {
    const at = this.find(event);
    if (at === this.cursor) return;
    this.cursor = at;
    this.element.style.cursor = at >= 0 && this.only(at) ? "pointer" : "default";
    this.hint();
  }

  leave() {
    this.cursor = -1;
    this.hint();
  }

  hint() {
    const tile = this.tiles[this.cursor], node = tile && this.byKey.get(tile.key);
    this.tip.hidden = this.frame.hidden = !node;
    if (!node) return;
    Object.assign(this.frame.style, { left: `${tile.x - 2}px`, top: `${tile.y - 2}px`, width: `${this.w + 4}px`, height: `${this.h + 4}px` });
    this.tip.textContent = this.describe(node);
    const below = tile.y + this.h + 8;
    this.tip.style.left = `${Math.max(0, Math.min(tile.x, this.width - this.tip.offsetWidth))}px`;
    this.tip.style.top = `${below + this.tip.offsetHeight > this.canvas.clientHeight && tile.y > this.tip.offsetHeight + 8 ? tile.y - this.tip.offsetHeight - 8 : below}px`;
  }

  describe(node) {
    const lines = [[node.key, ...(node.in || []).filter(Boolean)].join(" · ")];
    const state = stateOf(node);
    lines.push(state);
    for (const one of node.by || []) {
      const mc = this.miniClusters.get(one.of);
      lines.push(one.of ? `${one.of}${mc ? `, ${kindOf(mc)}` : ""}: ${plural(one.pods, "pod")}` : `others: ${plural(one.pods, "pod")}`);
    }
    return lines.join("\n");
  }

  // only is the MiniCluster of a tile if there is one alone that the viewer may see.
  only(at) {
    const visible = (this.byKey.get(this.tiles[at].key)?.by || []).filter((one) => one.of);
    return visible.length ? visible[0].of : "";
  }

  enter(at) {
    const key = this.only(at);
    if (key) this.open(key);
  }

  press(event) {
    const at = this.cursor;
    const tile = this.tiles[at];
    if (event.key === "Enter" && tile) return this.enter(at);
    if (event.key === "Home") this.go(0);
    else if (event.key === "End") this.go(this.tiles.length - 1);
    else if (event.key === "ArrowRight") this.go(Math.min(at + 1, this.tiles.length - 1));
    else if (event.key === "ArrowLeft") this.go(Math.max(at - 1, 0));
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.go(this.beside(tile, event.key === "ArrowDown" ? 1 : -1));
    else return;
    event.preventDefault();
  }

  // beside is the nearest tile of the rows below or above.
  beside(tile, direction) {
    if (!tile) return 0;
    let best = this.cursor, least = Infinity;
    this.tiles.forEach((other, i) => {
      const down = (other.y - tile.y) * direction;
      const far = down * 4 + Math.abs(other.x - tile.x);
      if (down > 0 && far < least) [best, least] = [i, far];
    });
    return best;
  }

  go(at) {
    if (!this.tiles[at]) return;
    this.cursor = at;
    this.hint();
    const node = this.byKey.get(this.tiles[at].key);
    if (node) this.said.textContent = this.describe(node);
  }
}

const isBad = (node) => node.down && node.down !== "cordoned" && node.down !== "unschedulable";

// stateOf says in words what a node is doing.
export function stateOf(node) {
  const parts = [];
  if (node.down) parts.push(node.down);
  if (node.by?.length) parts.push(node.part >= 100 ? "in use" : `in use, ${node.part} %`);
  else if (!node.down) parts.push("free");
  if (node.reserved) parts.push(node.reservation ? `reserved by ${node.reservation}` : "reserved");
  if (node.taint) parts.push(`taint ${node.taint}`);
  return parts.join("; ");
}

// block fills a tile. Small ones have corners, which are much faster to draw.
function block(c, x, y, w, h, r) {
  if (r < 3) return c.fillRect(x, y, w, h);
  round(c, x, y, w, h, r);
  c.fill();
}

function round(c, x, y, w, h, r) {
  c.beginPath();
  c.roundRect(x, y, w, h, r);
}

function stripes(c, x, y, w, h, color) {
  c.strokeStyle = color;
  c.lineWidth = 1;
  c.beginPath();
  for (let k = 4; k < w + h; k += 4) { // corner to corner, within the tile
    c.moveTo(x + Math.max(0, k - h), y + Math.min(k, h));
    c.lineTo(x + Math.min(k, w), y + Math.max(0, k - w));
  }
  c.stroke();
}

// short is a text that is at most so wide: names differ at their ends, so the middle is left out.
function short(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let shown = text;
  for (let n = text.length - 1; n > 1 && c.measureText(shown).width > width; n--) shown = `${text.slice(0, Math.floor(n / 2))}…${text.slice(-Math.ceil(n / 2))}`;
  return shown;
}

// legend says what the colors and the marks of the map mean: those that some node has, and no others.
export function legend(parent, nodes, map) {
  const marks = { hidden: "in use by others", part: "in part in use", free: "free", reserved: "reserved", cordoned: "cordoned", down: "down", taint: "taint" };
  const has = new Set(), pods = new Map();
  for (const node of nodes) {
    if (node.down) has.add(isBad(node) ? "down" : "cordoned");
    else if (!node.by?.length) has.add("free");
    if (node.by?.length && node.part < 100) has.add("part");
    if (node.reserved) has.add("reserved");
    if (node.taint) has.add("taint");
    for (const one of node.by || []) {
      if (one.of) pods.set(one.of, (pods.get(one.of) || 0) + one.pods);
      else has.add("hidden");
    }
  }
  const items = [...map.meanings(pods), ...Object.keys(marks).filter((kind) => has.has(kind)).map((kind) => ({ kind, text: marks[kind] }))];
  const shown = JSON.stringify(items);
  if (parent.dataset.shown === shown) return;
  parent.dataset.shown = shown;
  parent.replaceChildren(...items.map(({ color, kind, text }) => el("li", {}, color ? swatch(color) : kind ? el("span", { class: `swatch ${kind}`, "aria-hidden": "true" }) : "", el("bdi", {}, text))));
}

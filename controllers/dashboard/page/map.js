// The map of the nodes: a tile for each node, in boxes for racks, below headings for zones.

import { el, byId, byName, colorOf, plural, queueColor, stateColor, themeColors } from "./dom.js";

const heading = 26, label = 16, pad = 7, between = 10;

export class NodeMap {
  constructor(element, open) {
    this.element = element;
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

  // show takes the nodes, the MiniClusters by key, the names of the levels and the key of the MiniCluster that is looked at.
  show(nodes, miniClusters, levels, current) {
    this.miniClusters = miniClusters;
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

  // lay finds large tiles with which the map is not too high, and fills the width.
  lay() {
    const width = this.element.clientWidth;
    if (!width || !this.zones || width === this.width) return;
    this.width = width;
    const most = Math.max(300, Math.min(620, innerHeight * 0.6));
    let size = 7, best = 0;
    for (let one = 34; one > 7; one--) {
      if (this.place(one, width) > most) continue;
      const right = Math.max(...this.boxes.map((box) => box.x + box.w), this.boxes.length ? 0 : width);
      if (one * right > best) [size, best] = [one, one * right];
    }
    const height = Math.ceil(this.place(size, width));
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.height = `${height}px`;
    this.scale = scale;
    this.draw();
  }

  place(size, width) {
    const gap = size >= 14 ? 3 : size >= 10 ? 2 : 1;
    const step = size + gap;
    const tiles = [], boxes = [], titles = [];
    let y = 0;
    for (const zone of this.zones) {
      if (zone.name) {
        titles.push({ text: zone.name, count: zone.racks.reduce((sum, rack) => sum + rack.keys.length, 0), y });
        y += heading;
      }
      let x = 0, tallest = 0;
      for (const rack of zone.racks) {
        const n = rack.keys.length, inside = rack.name ? pad : 0, top = rack.name ? label + pad : 0;
        const widest = Math.max(1, Math.floor((width - 2 * inside + gap) / step));
        const columns = rack.name ? Math.min(widest, n, Math.max(Math.ceil(Math.sqrt(n * 1.8)), Math.ceil(84 / step))) : widest;
        const w = Math.max(columns * step - gap + 2 * inside, rack.name ? Math.min(98, width) : 0), h = top + Math.ceil(n / columns) * step - gap + inside;
        if (x > 0 && x + w > width) {
          y += tallest + between;
          x = tallest = 0;
        }
        if (rack.name) boxes.push({ text: rack.name, x, y, w, h });
        rack.keys.forEach((key, i) => tiles.push({ key, x: x + inside + (i % columns) * step, y: y + top + Math.floor(i / columns) * step }));
        x += w + between;
        tallest = Math.max(tallest, h);
      }
      y += tallest + between + 4;
    }
    Object.assign(this, { size, step, tiles, boxes, titles });
    return Math.max(y - between, 40);
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
    for (const box of this.boxes) {
      c.fillStyle = t.raised;
      round(c, box.x, box.y, box.w, box.h, 6);
      c.fill();
      c.fillStyle = t.dim;
      c.save();
      c.beginPath();
      c.rect(box.x, box.y, box.w - 4, box.h);
      c.clip();
      c.fillText(box.text, box.x + pad, box.y + 6);
      c.restore();
    }
    this.dims = this.current && [...this.byKey.values()].some((node) => node.by?.some((one) => one.of === this.current));
    for (const tile of this.tiles) this.tile(c, t, tile);
  }

  tile(c, t, tile) {
    const node = this.byKey.get(tile.key), s = this.size, r = s >= 12 ? 3 : 1.5;
    if (!node) return;
    const { x, y } = tile, by = node.by || [];
    c.globalAlpha = this.dims && !by.some((one) => one.of === this.current) ? 0.28 : 1;
    const w = s / Math.min(by.length || 1, 4), h = Math.round(s * Math.max(0.25, (node.part || 100) / 100));
    if (by.length !== 1 || h < s) {
      c.fillStyle = isBad(node) ? t["bad-soft"] : t.free;
      block(c, x, y, s, s, r);
    }
    by.slice(0, 4).forEach((one, i) => {
      c.fillStyle = this.paintOf(one.of, t);
      block(c, x + i * w, y + s - h, w, h, r);
      if (!one.of) stripes(c, x + i * w, y + s - h, w, h, t.free);
    });
    if (node.reserved) {
      c.strokeStyle = t.reserved;
      c.lineWidth = s >= 12 ? 2 : 1.5;
      round(c, x + 1, y + 1, s - 2, s - 2, r);
      c.stroke();
    }
    if (node.down) {
      const m = s * 0.25;
      c.strokeStyle = t.bad;
      c.lineWidth = Math.max(1.5, s / 12);
      c.beginPath();
      c.moveTo(x + m, y + m);
      c.lineTo(x + s - m, y + s - m);
      if (isBad(node)) {
        c.moveTo(x + s - m, y + m);
        c.lineTo(x + m, y + s - m);
      }
      c.stroke();
    }
    if (node.taint && s >= 9) {
      c.fillStyle = t.dim;
      c.beginPath();
      c.arc(x + s - s * 0.22, y + s * 0.22, Math.max(1, s * 0.09), 0, 7);
      c.fill();
    }
    c.globalAlpha = 1;
  }

  paintOf(key, t) {
    if (!key) return t.hidden;
    const mc = this.miniClusters.get(key);
    if (this.color === "state") return stateColor(mc?.state);
    if (this.color === "queue") return queueColor(mc?.queue);
    return colorOf(key);
  }

  find(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, s = this.step;
    return this.tiles.findIndex((tile) => x >= tile.x && x < tile.x + s && y >= tile.y && y < tile.y + s);
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
    Object.assign(this.frame.style, { left: `${tile.x - 2}px`, top: `${tile.y - 2}px`, width: `${this.size + 4}px`, height: `${this.size + 4}px` });
    this.tip.textContent = this.describe(node);
    const below = tile.y + this.size + 8;
    this.tip.style.left = `${Math.max(0, Math.min(tile.x, this.width - this.tip.offsetWidth))}px`;
    this.tip.style.top = `${below + this.tip.offsetHeight > this.canvas.clientHeight && tile.y > this.tip.offsetHeight + 8 ? tile.y - this.tip.offsetHeight - 8 : below}px`;
  }

  describe(node) {
    const lines = [[node.key, ...(node.in || []).filter(Boolean)].join(" · ")];
    const state = stateOf(node);
    lines.push(state);
    for (const one of node.by || []) {
      const mc = this.miniClusters.get(one.of);
      lines.push(one.of ? `${one.of}${mc ? `, ${mc.state}` : ""}: ${plural(one.pods, "pod")}` : `others: ${plural(one.pods, "pod")}`);
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

// legend lists the marks that some node has.
export function legend(parent, nodes) {
  const has = { used: false, hidden: false, free: false, reserved: false, cordoned: false, down: false };
  for (const node of nodes) {
    if (node.down) has[isBad(node) ? "down" : "cordoned"] = true;
    else if (!node.by?.length) has.free = true;
    if (node.reserved) has.reserved = true;
    for (const one of node.by || []) has[one.of ? "used" : "hidden"] = true;
  }
  const names = { used: "in use", hidden: "in use by others", free: "free", reserved: "reserved", cordoned: "cordoned", down: "down" };
  const shown = Object.keys(has).filter((kind) => has[kind]).join();
  if (parent.dataset.shown === shown) return;
  parent.dataset.shown = shown;
  parent.replaceChildren(...Object.keys(has).filter((kind) => has[kind]).map((kind) => el("li", {}, el("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), names[kind])));
}

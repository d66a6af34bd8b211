// A table that has elements only for the rows in sight, so that it may have thousands.

import { el } from "./dom.js";

const rowHeight = 37; // with its border, as in style.css
const beyond = 8; // rows above and below those in sight

export class Table {
  // columns: {title, class, head, cell(item)}; cell returns a text or an element. The column with head names
  // its row.
  constructor(parent, label, columns) {
    this.columns = columns;
    this.rows = new Map();
    this.items = [];
    this.above = el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: columns.length }));
    this.below = this.above.cloneNode(true);
    this.body = el("tbody", {}, this.above, this.below);
    this.table = el("table", { "aria-label": label },
      el("colgroup", {}, ...columns.map((c) => el("col", { class: c.class }))),
      el("thead", {}, el("tr", { "aria-rowindex": 1 }, ...columns.map((c) => el("th", { scope: "col", class: c.class }, c.title)))),
      this.body);
    this.scroller = el("div", { class: "table", tabindex: 0, role: "region", "aria-label": label }, this.table);
    this.nothing = el("p", { class: "empty", hidden: "" });
    parent.replaceChildren(this.scroller, this.nothing);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  show(items, current, nothing) {
    this.items = items;
    this.current = current;
    this.table.setAttribute("aria-rowcount", items.length + 1);
    this.nothing.hidden = items.length > 0;
    this.scroller.hidden = items.length === 0;
    this.nothing.textContent = nothing;
    this.draw();
  }

  draw() {
    const { scrollTop, clientHeight } = this.scroller;
    if (!clientHeight && this.items.length) {
      if (this.scroller.offsetParent === null) return; // not in sight
    }
    const from = Math.max(0, Math.floor(scrollTop / rowHeight) - beyond);
    const to = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / rowHeight) + beyond);
    const wanted = new Set();
    for (let i = from; i < to; i++) wanted.add(this.items[i].key);
    for (const [key, row] of this.rows) {
      if (!wanted.has(key)) {
        row.element.remove();
        this.rows.delete(key);
      }
    }
    setHeight(this.above, from * rowHeight);
    setHeight(this.below, (this.items.length - to) * rowHeight);
    let before = this.above;
    for (let i = from; i < to; i++) {
      const row = this.row(this.items[i]);
      if (before.nextSibling !== row.element) before.after(row.element);
      row.element.setAttribute("aria-rowindex", i + 2);
      before = row.element;
    }
  }

  row(item) {
    let row = this.rows.get(item.key);
    if (!row) {
      const cells = this.columns.map((c) => (c.head ? el("th", { scope: "row", class: c.class }) : el("td", { class: c.class })));
      row = { element: el("tr", {}, ...cells), cells, shown: [] };
      this.rows.set(item.key, row);
    }
    if (row.item !== item) row.shown = [];
    row.item = item;
    if (item.key === this.current) row.element.setAttribute("aria-current", "true");
    else row.element.removeAttribute("aria-current");
    this.columns.forEach((column, i) => {
      const text = column.text(item);
      if (row.shown[i] === text) return;
      row.shown[i] = text;
      const cell = row.cells[i];
      if (column.link) {
        const link = cell.firstChild || cell.appendChild(el("a"));
        link.textContent = text;
        link.setAttribute("href", column.link(item));
      } else if (column.state) {
        const mark = cell.firstChild || cell.appendChild(el("span", { class: "state" }));
        mark.textContent = text;
        mark.dataset.state = column.state(item);
      } else {
        cell.textContent = text;
      }
      cell.title = text;
    });
    return row;
  }
}

function setHeight(row, height) {
  const text = `${height}px`;
  if (row.firstChild.style.height !== text) row.firstChild.style.height = text;
  row.hidden = height === 0;
}

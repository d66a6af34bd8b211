// A table that has elements only for the rows in sight, so that it may have thousands.

import { el, swatch } from "./dom.js";

const beyond = 8; // rows above and below those in sight

export class Table {
  // columns: {title, class, head, text(item)}. The column with head names its row. A column may have link(item), an
  // address; state(item), a kind of mark; and color(item), of a swatch before the text. The style sheet says by --row
  // how high a row is, and may show a row as several lines.
  constructor(parent, label, columns) {
    this.columns = columns;
    this.rows = new Map();
    this.items = [];
    this.above = el("tr", { class: "space", "aria-hidden": "true" }, el("td"));
    this.below = this.above.cloneNode(true);
    this.body = el("tbody", { role: "rowgroup" }, this.above, this.below);
    this.table = el("table", { role: "table", "aria-label": label },
      el("colgroup", {}, ...columns.map((c) => el("col", { class: c.class }))),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row", "aria-rowindex": 1 }, ...columns.map((c) => el("th", { role: "columnheader", scope: "col", class: c.class }, c.title)))),
      this.body);
    this.scroller = el("div", { class: "table", tabindex: 0, role: "region", "aria-label": label }, this.table);
    this.nothing = el("p", { class: "empty", hidden: "" });
    parent.replaceChildren(this.scroller, this.nothing);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => {
      this.rowHeight = 0; // read again
      this.draw();
    }).observe(this.scroller);
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
    const rowHeight = this.rowHeight ||= parseFloat(getComputedStyle(this.scroller).getPropertyValue("--row"));
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
      const cells = this.columns.map((c) => (c.head ? el("th", { role: "rowheader", scope: "row", class: c.class }) : el("td", { role: "cell", class: c.class })));
      row = { element: el("tr", { role: "row" }, ...cells), cells, shown: [] };
      this.rows.set(item.key, row);
    }
    if (row.item !== item) row.shown = [];
    row.item = item;
    if (item.key === this.current) row.element.setAttribute("aria-current", "true");
    else row.element.removeAttribute("aria-current");
    this.columns.forEach((column, i) => {
      const text = column.text(item), color = column.color?.(item);
      if (row.shown[i] === `${color} ${text}`) return;
      row.shown[i] = `${color} ${text}`;
      const cell = row.cells[i];
      fill(cell, column, item, text, color);
      cell.title = text;
    });
    return row;
  }
}

// fill changes a cell, and keeps its elements: a link may have the focus.
function fill(cell, column, item, text, color) {
  if (column.color) (cell.querySelector(".swatch") || cell.appendChild(swatch())).style.background = color || "none";
  if (column.link) {
    const link = cell.querySelector("a") || cell.appendChild(el("a"));
    link.textContent = text;
    link.setAttribute("href", column.link(item));
  } else if (column.state) {
    const mark = cell.firstChild || cell.appendChild(el("span", { class: "state" }));
    mark.textContent = text;
    mark.dataset.state = column.state(item);
  } else {
    cell.textContent = text;
  }
}

function setHeight(row, height) {
  const text = `${height}px`;
  if (row.firstChild.style.height !== text) row.firstChild.style.height = text;
  row.hidden = height === 0;
}

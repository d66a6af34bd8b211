// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"strings"
	"testing"
)

// The first slots have colors that nobody confuses, with text that is read well; and a MiniCluster keeps its color
// while others end.
func TestColors(t *testing.T) {
	url := serve(t, "--open", "--nodes=24", "--miniclusters=22")
	for name, l := range map[string]look{"light": wide, "dark": night} {
		t.Run(name, func(t *testing.T) {
			p := open(t, url, l)
			p.live()
			for _, wrong := range waited[[]string](p, colors) {
				t.Error(wrong)
			}
		})
	}
}

// colors says what is wrong with the colors of slots, and with those of the theme.
const colors = `(async () => {
	const { Slots, contrast, inkOn, labOf, themeColors } = await import("./colors.js"), wrong = [], slots = new Slots();
	const all = Array.from({ length: 32 }, (_, i) => slots.color("lammps-" + i));
	const labs = all.map((color) => labOf(color.match(/\d+/g).map(Number)));
	const distance = (a, b) => Math.hypot(...a.map((v, k) => v - b[k])), hue = (lab) => Math.atan2(lab[2], lab[1]) * 180 / Math.PI;
	for (let i = 0; i < all.length; i++) {
		if (contrast(inkOn(all[i]), all[i]) < 4.5) wrong.push("text on " + all[i]);
		for (let j = 0; j < i; j++) {
			const apart = Math.abs(((hue(labs[i]) - hue(labs[j])) % 360 + 540) % 360 - 180);
			if (i < 6 && apart < 30) wrong.push("slots " + j + " and " + i + " have hues that are " + Math.round(apart) + " degrees apart");
			if (distance(labs[i], labs[j]) < (i < 16 ? 0.07 : 0.03)) wrong.push("slots " + j + " and " + i + " look alike: " + all[j] + ", " + all[i]);
		}
	}
	slots.keep(["lammps-3", "lammps-7", "new"]);
	if (slots.color("lammps-3") !== all[3] || slots.color("lammps-7") !== all[7]) wrong.push("a color changed when others ended");
	if (slots.color("new") !== all[0]) wrong.push("the lowest free slot was not given");
	const t = themeColors();
	for (const [name, ground, least] of [["ink", "surface", 4.5], ["dim", "surface", 4.5], ["dim", "raised", 4.5], ["accent", "surface", 4.5], ["never", "surface", 4.5], ["bad", "surface", 4.5],
		...["running", "starting", "queued", "releasing", "failed", "succeeded", "suspended", "reserved"].map((name) => [name, "surface", 3])]) {
		if (contrast(t[name], t[ground]) < least) wrong.push(name + " on " + ground + " has a contrast of " + contrast(t[name], t[ground]).toFixed(1));
	}
	return wrong;
})()`

// Whatever the cluster is like, the tiles are in the box, apart from each other, and most of the box is tiles.
func TestLayout(t *testing.T) {
	p := open(t, serve(t, "--open", "--nodes=24", "--miniclusters=22"), wide)
	p.live()
	for _, wrong := range waited[[]string](p, layouts) {
		t.Error(wrong)
	}
}

const layouts = `(async () => {
	const { layout } = await import("./layout.js"), wrong = [];
	const zone = (name, ...racks) => ({ name, racks: racks.map((n, i) => ({ name: racks.length > 1 ? "rack-" + i : "", keys: Array.from({ length: n }, (_, k) => name + i + "-" + k) })) });
	for (const [what, zones, width, height, least] of [
		["one node", [zone("", 1)], 940, 460, 0.05], ["24 nodes", [zone("", 24)], 940, 460, 0.75], ["24 nodes on a phone", [zone("a", 24)], 320, 360, 0.6],
		["two racks", [zone("a", 12, 12)], 940, 460, 0.6], ["racks that differ", [zone("a", 1, 30, 7, 64)], 940, 460, 0.3],
		["three zones", [zone("a", 8), zone("b", 8), zone("c", 8)], 940, 460, 0.45], ["400 nodes", [zone("a", ...Array(8).fill(50))], 1700, 520, 0.6],
		["1,000 nodes", [zone("a", ...Array(20).fill(50))], 940, 460, 0.35], ["5,000 nodes", Array.from({ length: 5 }, (_, i) => zone("z" + i, ...Array(20).fill(50))), 940, 460, 0],
	]) {
		const at = layout(zones, width, height), nodes = zones.flatMap((one) => one.racks).reduce((sum, rack) => sum + rack.keys.length, 0);
		if (at.tiles.length !== nodes || new Set(at.tiles.map((tile) => tile.key)).size !== nodes) wrong.push(what + ": not one tile for each node");
		if (at.tiles.some((tile) => tile.x < 0 || tile.y < 0 || tile.x + at.w > width || tile.y + at.h > at.height)) wrong.push(what + ": a tile is outside");
		if (at.height > height && at.h > 7) wrong.push(what + ": does not fit, and has no smallest tiles");
		if (nodes <= 1000 && at.tiles.some((a, i) => at.tiles.some((b, j) => j < i && Math.abs(a.x - b.x) < at.w && Math.abs(a.y - b.y) < at.h))) wrong.push(what + ": tiles overlap");
		const part = nodes * at.w * at.h / width / height;
		if (part < least) wrong.push(what + ": tiles of " + at.w + " x " + at.h + " fill " + part.toFixed(2) + " of the box");
	}
	return wrong;
})()`

// A color means on the map what it means in the legend and in the table, and the map has no other legend.
func TestLegend(t *testing.T) {
	p := open(t, serve(t, "--open", "--nodes=24", "--miniclusters=22"), wide)
	p.live()
	for _, by := range []string{"minicluster", "queue", "state"} {
		p.act(fmt.Sprintf(`(() => { const by = document.getElementById("map-colour"); by.value = %q; by.dispatchEvent(new Event("change")); })()`, by))
		p.await(legendTrue)
	}
	contains(t, p.text("#map-legend"), "cordoned")
	if text := p.text("#map-legend"); strings.Contains(text, "down") {
		t.Errorf("no node is down, and the legend says %q", text)
	}
}

// legendTrue is true if each color of the legend is on the map, and belongs to a row of the table that it names.
const legendTrue = `(() => {
	const canvas = document.querySelector("#map canvas"), data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
	for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
	const rows = [...document.querySelectorAll("#table tbody tr:not(.space)")].map((row) => [getComputedStyle(row.querySelector(".swatch")).backgroundColor, row.textContent]);
	const items = [...document.querySelectorAll("#map-legend li")].filter((item) => item.querySelector(".swatch")?.className === "swatch");
	return items.length && items.every((item) => {
		const color = getComputedStyle(item.querySelector(".swatch")).backgroundColor, [r, g, b] = color.match(/\d+/g);
		return seen.has(r << 16 | g << 8 | b) && rows.some(([other, text]) => other === color && text.includes(item.textContent.replace("queue ", "")));
	});
})()`

// checkMap checks that the map takes its box, with nothing empty below.
func (p *page) checkMap(l look) {
	p.Helper()
	p.await(`document.querySelector("#map canvas").clientHeight >= document.getElementById("map").clientHeight`)
	if below := eval[float64](p, `document.querySelector(".side").getBoundingClientRect().bottom - document.getElementById("nodes").getBoundingClientRect().bottom`); l.width > 1150 && (below > 1 || below < -1) {
		p.Errorf("%g pixels are empty below the map or beside it", below)
	}
	if below := eval[float64](p, `document.querySelector(".side").getBoundingClientRect().bottom - document.querySelector(".side > :last-child").getBoundingClientRect().bottom`); below > 1 {
		p.Errorf("%g pixels are empty below the chart", below)
	}
}

// checkRows checks what rows say on a screen of any width.
func (p *page) checkRows() {
	p.Helper()
	var marks []string
	for _, kind := range []struct{ state, find, cells string }{
		{"NeverFits", "neverfits", ".c-why .c-user .c-size"}, {"Queued", "noroom", ".c-why .c-user .c-size"}, {"Running", "running", ".c-command .c-user .c-size"},
	} {
		p.filter(kind.find, kind.state)
		for cell := range strings.FieldsSeq(kind.cells) {
			if !eval[bool](p, fmt.Sprintf(inSight, cell)) {
				p.Errorf("%s of a MiniCluster that is %s is not in sight", cell, kind.state)
			}
		}
		marks = append(marks, eval[string](p, mark))
		if twice := eval[string](p, `[...document.querySelectorAll("#table .c-why")].map((cell) => cell.textContent).find((text) => /^\d+ of \d+ brokers up$/.test(text)) ?? ""`); twice != "" {
			p.Errorf("a reason repeats the brokers: %s", twice)
		}
	}
	if marks[0] == marks[1] {
		p.Errorf("NeverFits looks as Queued: %s", marks[0])
	}
	p.filter("", "NeverFits")
}

const (
	// inSight is true if a cell of the first row can be read.
	inSight = `(() => {
		const cell = document.querySelector("#table tbody tr:not(.space) " + %q), box = cell.getBoundingClientRect();
		return cell.textContent !== "" && box.width >= (cell.matches(".c-why, .c-command") ? 140 : 20) && box.height > 8 && box.left >= 0 && box.right <= innerWidth;
	})()`
	// mark is how the state of the first row looks.
	mark = `(() => {
		const mark = document.querySelector("#table tbody .state"), before = getComputedStyle(mark, "::before");
		return [getComputedStyle(mark).color, before.boxShadow, before.borderRadius].join("; ");
	})()`
)

// checkTimes checks that each time of the page has one format: the time of day in UTC, after a date or alone, and
// lengths without spaces.
func (p *page) checkTimes() {
	p.Helper()
	const texts = `(() => {
		const all = [...document.querySelectorAll("[title]")].map((one) => one.title), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		while (walk.nextNode()) all.push(walk.currentNode.data);
		return all.filter((text) => /\d:\d\d/.test(text.replace(/(\d{4}-\d\d-\d\d )?\b\d\d:\d\d:\d\d UTC/g, "")) || /\b[AP]M\b|\d+\/\d+\/\d+|\d[dhm] \d+[hms]\b/.test(text));
	})()`
	for _, text := range eval[[]string](p, texts) {
		if !strings.Contains(text, "osu_allreduce") { // its option -m has a colon
			p.Errorf("a time of another format: %q", text)
		}
	}
}

// The bar of a failed run is not that of one that runs or succeeded.
func TestFailed(t *testing.T) {
	p := open(t, serve(t, "--open", "--nodes=149", "--miniclusters=60"), wide)
	p.live()
	p.act(`document.querySelector('#states [data-group="finished"]').click()`)
	for state, kind := range map[string]string{"Failed": "failed", "Succeeded": "running"} {
		p.filter(strings.ToLower(state), state)
		p.act(`document.querySelector("#table tbody a").click()`)
		p.await(fmt.Sprintf(`document.querySelector("#life .state").textContent === %q && document.querySelector("#life .spans li")`, state))
		if last := eval[string](p, `document.querySelector("#life .spans li:last-child").className`); last != "span-"+kind {
			t.Errorf("%s: the bar ends with %s", state, last)
		}
		colored := eval[bool](p, fmt.Sprintf(`(() => { const probe = document.body.appendChild(document.createElement("i")); probe.style.color = "var(--%s)"; return getComputedStyle(probe).color === getComputedStyle(document.querySelector("#life .spans li:last-child")).backgroundColor; })()`, kind))
		if !colored {
			t.Errorf("%s: the bar has another color", state)
		}
		p.shoot(strings.ToLower(state))
		p.checkTimes()
	}
}

// sizes of screens that somebody has looked at: a phone, a desk and a wall, by day and by night.
var looks = map[string]struct {
	nodes, miniClusters string
	look                look
}{
	"phone":       {"24", "22", look{width: 375, height: 812}},
	"phone-night": {"400", "120", look{width: 375, height: 812, dark: true}},
	"tablet":      {"400", "120", look{width: 900, height: 1100}},
	"desk":        {"24", "22", wide},
	"desk-night":  {"400", "120", night},
	"wall":        {"400", "120", look{width: 2400, height: 1300}},
	"wall-night":  {"24", "22", look{width: 2400, height: 1300, dark: true}},
}

// The page shows the cluster in every look, and the life of a MiniCluster.
func TestLooks(t *testing.T) {
	for name, l := range looks {
		t.Run(name, func(t *testing.T) {
			p := open(t, serve(t, "--open", "--nodes="+l.nodes, "--miniclusters="+l.miniClusters), l.look)
			p.live()
			contains(t, p.text("#totals"), "of "+l.nodes)
			contains(t, p.text("#queues"), "chemistry")
			p.await(`document.querySelector("#share svg") && document.querySelector("#map-legend li")`)
			p.shoot(name)
			p.checkMap(l.look)
			if over := eval[int](p, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("the page is %d pixels too wide", over)
			}
			p.act(`document.getElementById("miniclusters").scrollIntoView()`)
			p.shoot(name + "-table")
			p.checkRows()
			p.checkTimes()
			p.act(`document.querySelector('#states [data-group="running"]').click()`)
			p.await(`document.querySelector('#table .state[data-state="Running"]')`)
			p.act(`[...document.querySelectorAll("#table tbody tr")].find((row) => row.querySelector('[data-state="Running"]')).querySelector("a").click()`)
			p.await(`document.querySelector("#life .table .state") && document.querySelector("#life pre").textContent.includes("Step") && document.querySelector("#life").textContent.includes("BrokersLate")`)
			contains(t, p.text("#life .facts"), "Wanted")
			p.shoot(name + "-life")
			p.checkTimes()
		})
	}
}

// filter finds MiniClusters by a text, and waits until all in sight are of one kind, or the first if all are shown.
func (p *page) filter(text, kind string) {
	p.Helper()
	p.act(fmt.Sprintf(`(() => { const find = document.getElementById("find"); find.value = %q; find.dispatchEvent(new Event("input")); })()`, text))
	p.await(fmt.Sprintf(`(() => { const all = [...document.querySelectorAll("#table .state")], want = %q; return all.length && (%q ? all.every((one) => one.textContent === want) : all[0].textContent === want); })()`, kind, text))
}

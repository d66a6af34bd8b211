// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// watch notes long tasks, and times between frames, from now on.
const watch = `
window.figures = {tasks: [], frames: []};
new PerformanceObserver((list) => { for (const one of list.getEntries()) figures.tasks.push(Math.round(one.duration)); }).observe({type: "longtask", buffered: true});
let last = performance.now();
const frame = (now) => { figures.frames.push(now - last); last = now; requestAnimationFrame(frame); };
requestAnimationFrame(frame);
0`

// scroll goes through the table of MiniClusters and over the map, frame by frame, for five seconds.
const scroll = `new Promise((done) => {
	const table = document.querySelector("#table .table"), map = document.getElementById("map"), box = map.getBoundingClientRect(), begin = performance.now();
	let x = 0;
	const step = (now) => {
		table.scrollTop = (table.scrollTop + 61) % (table.scrollHeight - table.clientHeight);
		x += 7;
		map.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + x % box.width, clientY: box.top + (x * 3) % box.height}));
		if (now - begin < 5000) requestAnimationFrame(step); else done(0);
	};
	requestAnimationFrame(step);
})`

// summary says what was noted.
const summary = `(() => {
	const frames = figures.frames.slice(1).sort((a, b) => a - b), at = (part) => Math.round(frames[Math.min(frames.length - 1, Math.floor(frames.length * part))]);
	return ` + "`${frames.length} frames, median ${at(.5)} ms, 95 % within ${at(.95)} ms, longest ${at(1)} ms; long tasks (over 50 ms): ${figures.tasks.length ? figures.tasks.join(', ') + ' ms' : 'none'}`" + `;
})()`

// weigh reads the stream for some updates beside the page, and says how long they are.
const weigh = `(async () => {
	const reader = (await fetch("/api/view")).body.pipeThrough(new TextDecoderStream()).getReader(), sizes = [];
	for (let text = ""; sizes.length < 11; ) {
		text += (await reader.read()).value;
		for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
			sizes.push(end + 2);
			text = text.slice(end + 2);
		}
	}
	reader.cancel();
	return sizes;
})()`

// 5,000 nodes and 1,000 MiniClusters are shown by some hundred elements, and an update is a small part of the whole.
// The figures of docs/dashboard.md are those that the test logs.
func TestMany(t *testing.T) {
	p := open(t, serve(t, "--open", "--nodes=5000", "--miniclusters=1000"), look{width: 1440, height: 1000})
	p.act(watch)
	p.live()
	p.await(`document.getElementById("totals").textContent.includes("of 5000")`)
	p.shoot("many")
	t.Logf("first: %s", eval[string](p, summary))
	if elements := eval[int](p, `document.querySelectorAll("*").length`); elements > 1500 {
		t.Errorf("the page has %d elements", elements)
	}
	sizes := waited[[]int](p, weigh)
	sum := 0
	for _, size := range sizes[1:] {
		sum += size
	}
	t.Logf("bytes: %d at first, %v after it", sizes[0], sizes[1:])
	if mean := sum / (len(sizes) - 1); mean > sizes[0]/5 {
		t.Errorf("an update has %d bytes, and the whole %d", mean, sizes[0])
	}
	p.act(`figures.tasks.length = figures.frames.length = 0`)
	waited[int](p, scroll)
	t.Logf("scrolled: %s", eval[string](p, summary))
}

// waited returns what a promise gives.
func waited[T any](p *page, expression string) T {
	p.Helper()
	return run(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// The panel of one MiniCluster.

import { el, fullTime, kindOf, lasts, leftOf, now, plainTimes, plural, reasonOf, time } from "./dom.js";
import { ask, follow, Store } from "./stream.js";
import { Table } from "./table.js";

const words = { missing: "No pod", gated: "Waiting to be placed", coming: "Starting", up: "Up", leaving: "Leaving", succeeded: "Ended", failed: "Failed", vacated: "Gave its node back" };
const spanWords = { waiting: "Waiting", starting: "Starting", running: "Running", failed: "Failed", lost: "Run in vain", forgotten: "Earlier attempts" };
const logInterval = 5000;

export class Life {
  constructor(panel, close, onToken) {
    this.panel = panel;
    this.close = close;
    this.onToken = onToken;
    panel.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
    setInterval(() => this.tick(), 1000);
  }

  open(key) {
    this.end();
    this.key = key;
    this.store = new Store("story", "brokers");
    this.build(key);
    this.panel.hidden = false;
    this.title.focus();
    const path = this.path = `/api/miniclusters/${key.split("/").map(encodeURIComponent).join("/")}`;
    this.abort = new AbortController();
    this.stop = follow(path, {
      delta: (delta, first) => {
        this.store.apply(delta, first);
        this.draw();
      },
      status: (kind, why) => {
        if (kind === "token") this.onToken(why);
        if (kind === "gone") this.message.textContent = why;
      },
    });
    this.readLog();
    this.logTimer = setInterval(() => { if (!document.hidden && this.story?.nodes) this.readLog(); }, logInterval);
  }

  end() {
    this.stop?.();
    this.abort?.abort();
    clearInterval(this.logTimer);
    this.key = this.story = this.stop = undefined;
    this.told = "";
    this.panel.hidden = true;
    this.panel.replaceChildren();
  }

  build(key) {
    const [namespace, name] = key.split("/");
    this.title = el("h2", { id: "life-title", tabindex: -1 }, el("small", {}, el("bdi", {}, namespace)), el("bdi", {}, name));
    this.state = el("span", { class: "state" });
    this.message = el("p", { class: "message" }, "Reading ...");
    this.facts = el("dl", { class: "facts" });
    this.spans = el("ol", { class: "spans", "aria-label": "Its life" });
    this.ends = el("div", { class: "ends" });
    this.kinds = el("ul", { class: "legend" });
    this.attempts = el("div");
    this.count = el("p", { class: "note" });
    this.brokers = el("div");
    this.conditions = el("tbody");
    this.events = el("div", {}, el("p", { class: "note" }, "Reading ..."));
    this.logText = el("pre", { tabindex: 0, "aria-label": "The end of the log" });
    this.logNote = el("p", { class: "note" });
    this.command = el("p", { class: "code" });
    this.panel.replaceChildren(
      el("div", { class: "top" }, this.title, this.state, el("button", { type: "button", "aria-label": "Close", onclick: this.close }, "✕")),
      this.message, this.facts,
      el("h3", {}, "Life"), this.spans, this.ends, this.kinds, this.attempts,
      el("h3", {}, "Brokers"), this.count, this.brokers,
      el("h3", {}, "Log of the lead"), this.logNote, this.logText,
      el("h3", {}, "Events"), this.events,
      el("details", {}, el("summary", {}, "Command"), this.command),
      el("details", {}, el("summary", {}, "Conditions"), el("table", { class: "plain" },
        el("thead", {}, el("tr", {}, ...["Condition", "Status", "Reason", "Message"].map((text) => el("th", { scope: "col" }, text)))), this.conditions)));
    this.table = new Table(this.brokers, "Brokers by rank", [
      { title: "Rank", class: "c-rank", head: true, text: (b) => (b.rank === 0 ? "0 lead" : String(b.rank)) },
      { title: "Node", class: "c-node", text: (b) => b.node },
      { title: "State", class: "c-broker", state: (b) => b.state, text: (b) => (b.state ? words[b.state] : "not shown") + (b.exit ? ` (${b.exit})` : "") },
      { title: "Runs for", class: "c-since", text: (b) => (b.since && b.state === "up" && !this.story?.ended ? lasts(now() - b.since) : "") },
      { title: "Note", class: "c-note", text: (b) => b.note || "" },
    ]);
  }

  draw() {
    const story = this.story = [...this.store.story.values()][0];
    if (!story) return;
    const kind = kindOf(story);
    this.state.textContent = kind || "New";
    this.state.dataset.state = this.message.dataset.state = kind;
    this.message.textContent = story.message ? reasonOf(story) : "Nobody has looked at it yet.";
    this.message.hidden = !this.message.textContent;
    this.command.textContent = [story.image, story.command].filter(Boolean).join("\n");
    this.conditions.replaceChildren(...(story.conditions || []).map((c) => el("tr", {}, el("td", {}, c.type), el("td", {}, c.status), el("td", {}, c.reason), el("td", {}, plainTimes(c.message || "")))));
    this.drawAttempts(story);
    this.tick();
    const told = `${story.decision?.at} ${story.decision?.reason} ${story.state} ${story.up}`;
    if (told !== this.told) {
      this.told = told;
      this.readEvents();
      if (story.ended) this.readLog();
    }
  }

  drawAttempts(story) {
    if (!story.attempts?.length) return this.attempts.replaceChildren();
    this.attempts.replaceChildren(el("h3", {}, "Attempts that ended"), el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...["Attempt", "Size", "When", "Why it ended"].map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...story.attempts.toReversed().map((a) => el("tr", {},
        el("td", {}, String(a.attempt)), el("td", {}, String(a.size)),
        el("td", { class: "time", title: fullTime(a.admitted) }, `${time(a.admitted)}, ${lasts(a.ended - a.admitted)}`),
        el("td", {}, el("strong", {}, a.reason), a.message ? `: ${plainTimes(a.message)}` : "")))))); 
  }

  // tick shows what changes with time alone.
  tick() {
    const story = this.story;
    if (!story || this.panel.hidden) return;
    const end = story.ended || now();
    const facts = [["Brokers up", story.has ? `${story.up} of ${story.has}` : "0"], ["Wanted", story.least < story.wanted || story.most > story.wanted ? `${story.wanted} (${story.least} to ${story.most})` : String(story.wanted)]];
    if (story.tasks) facts.push(["Tasks", String(story.tasks)]);
    facts.push(["Queue", story.queue + (story.position ? `, place ${story.position}` : "")], ["User", story.user]);
    if (story.nodes) facts.push(["Nodes held", String(story.nodes)]);
    if (story.quorum) facts.push(["Quorum", String(story.quorum)]);
    if (story.attempt) facts.push(["Attempt", String(story.attempt)]);
    const last = story.spans.at(-1);
    if (last && !story.ended) facts.push([`${spanWords[last.kind]} for`, lasts((last.to || end) - last.from)]);
    if (leftOf(story)) facts.push(["Time left", leftOf(story)]);
    if (story.requeueAt > now()) facts.push(["Queued again in", lasts(story.requeueAt - now())]);
    if (story.exit !== undefined) facts.push(["Exit code", String(story.exit)]);
    const text = JSON.stringify(facts);
    if (this.shown !== text || !this.facts.firstChild) {
      this.shown = text;
      this.facts.replaceChildren(...facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
    }
    this.drawSpans(story, end);
    this.drawBrokers(story);
  }

  drawSpans(story, end) {
    const spans = story.spans.map((span) => ({ ...span, kind: kindOfSpan(span, story), seconds: (span.to || end) - span.from }));
    while (this.spans.children.length > spans.length) this.spans.lastChild.remove();
    spans.forEach((span, i) => {
      const item = this.spans.children[i] || this.spans.appendChild(el("li", {}, el("span", { class: "hidden-text" })));
      const text = `${spanWords[span.kind]}${span.attempt > 1 ? `, attempt ${span.attempt}` : ""}: ${lasts(span.seconds)}`;
      item.className = `span-${span.kind}`;
      item.style.flexGrow = Math.max(span.seconds, 0.001);
      item.title = text;
      item.firstChild.textContent = text;
    });
    this.kinds.replaceChildren(...[...new Set(spans.map((span) => span.kind))].map((kind) => {
      const sum = spans.filter((span) => span.kind === kind).reduce((total, span) => total + span.seconds, 0);
      return el("li", {}, el("span", { class: `swatch span-${kind}`, "aria-hidden": "true" }), `${spanWords[kind]} ${lasts(sum)}`);
    }));
    this.ends.replaceChildren(el("span", {}, fullTime(story.created)), el("span", {}, story.ended ? fullTime(story.ended) : "now"));
  }

  drawBrokers(story) {
    const brokers = [...this.store.brokers.values()].sort((a, b) => a.rank - b.rank);
    const counts = new Map();
    for (const broker of brokers) counts.set(broker.state, (counts.get(broker.state) || 0) + 1);
    const shown = [...counts].filter(([state]) => state).map(([state, n]) => `${n} ${words[state].toLowerCase()}`);
    this.count.textContent = shown.join(" · ");
    this.count.hidden = shown.length === 0;
    this.table.show(brokers, "", story.ended ? "It has ended, and has no nodes." : "It has no nodes yet.");
  }

  async readEvents() {
    const { response, text } = await this.read("/events");
    if (!response) return;
    if (!response.ok) return this.events.replaceChildren(el("p", { class: "note" }, text));
    const all = JSON.parse(text);
    if (!all.length) return this.events.replaceChildren(el("p", { class: "note" }, "The API server keeps no events of it."));
    this.events.replaceChildren(el("table", { class: "plain" }, el("tbody", {}, ...all.map((e) => el("tr", {},
      el("td", { class: "time", title: fullTime(e.at) }, time(e.at)),
      el("td", { class: e.type === "Warning" ? "reason warning" : "reason" }, e.reason + (e.count > 1 ? ` (${plural(e.count, "time")})` : "")), el("td", {}, plainTimes(e.message)))))));
  }

  async readLog() {
    const { response, text } = await this.read("/log");
    if (!response) return;
    // Control characters, and the colors of terminals, are left out.
    const log = response.ok ? text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "").replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, "") : "";
    this.logNote.textContent = response.ok ? (log ? "" : "The log is empty.") : text;
    this.logNote.hidden = !this.logNote.textContent;
    this.logText.hidden = !log;
    if (this.logText.textContent === log) return;
    const atEnd = this.logText.scrollTop + this.logText.clientHeight >= this.logText.scrollHeight - 8;
    this.logText.textContent = log;
    if (atEnd) this.logText.scrollTop = this.logText.scrollHeight;
  }

  async read(what) {
    const { key, abort } = this;
    try {
      const response = await ask(this.path + what, abort.signal);
      const text = await response.text();
      return this.key === key && !abort.signal.aborted ? { response, text: text.trim() || "" } : {};
    } catch {
      return {};
    }
  }
}

// kindOfSpan is the kind of a span, or how its run ended: the last run of a failed MiniCluster has failed, and what an
// attempt ran that ended without success is lost.
function kindOfSpan(span, story) {
  if (span.kind !== "running" && span.kind !== "starting") return span.kind;
  if (story.state === "Failed" && span === story.spans.at(-1)) return "failed";
  return span.kind === "running" && story.attempts?.some((a) => a.attempt === span.attempt) ? "lost" : span.kind;
}

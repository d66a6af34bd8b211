// Reads server-sent events with a token in the header, which EventSource cannot send.

const key = "flux-elastic-token";
export const token = {
  get: () => sessionStorage.getItem(key) || "",
  set: (text) => sessionStorage.setItem(key, text),
  forget: () => sessionStorage.removeItem(key),
};

// A link may bring the token in its fragment, which no server sees. The address does not keep the token.
function takeToken() {
  const brought = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!brought) return false;
  token.set(brought);
  history.replaceState(null, "", location.pathname);
  return true;
}
takeToken();
addEventListener("hashchange", () => takeToken() && location.reload());

export function ask(path, signal) {
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  return fetch(path, { headers, signal, cache: "no-store", credentials: "omit" });
}

// follow calls on.delta for each change of a path, with first set where the changes begin anew, and on.status
// with "live", "lost", "token" or "gone". It tries again after errors, and returns a function that ends it.
export function follow(path, on) {
  const stop = new AbortController();
  run(path, on, stop.signal);
  return () => stop.abort();
}

async function run(path, on, signal) {
  for (let failures = 0; !signal.aborted; failures++) {
    try {
      const response = await ask(path, signal);
      if (response.status === 401) return on.status("token", token.get() ? "The API server does not accept this token." : "");
      if (response.status === 404) return on.status("gone", await response.text());
      if (!response.ok) throw new Error(await response.text());
      let first = true;
      for await (const [kind, data] of events(response.body)) {
        if (kind === "end") return on.status("token", data.why);
        if (kind === "gone") return on.status("gone", data.why);
        on.delta(data, first);
        if (first) on.status("live", "");
        first = false;
        failures = 0;
      }
      throw new Error("The connection ended.");
    } catch (error) {
      if (signal.aborted) return;
      on.status("lost", error.message);
    }
    await new Promise((done) => setTimeout(done, Math.min(15000, 500 * 2 ** failures)));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (field("data")) yield [field("event"), JSON.parse(field("data"))];
    }
  }
}

// Store has the items of a stream by kind and key.
export class Store {
  constructor(...kinds) {
    for (const kind of kinds) this[kind] = new Map();
    this.kinds = kinds;
  }
  // apply takes a delta, and returns the kinds that changed.
  apply(delta, first) {
    const changed = new Set();
    if (first) {
      for (const kind of this.kinds) {
        this[kind].clear();
        changed.add(kind);
      }
    }
    for (const [kind, keys] of Object.entries(delta.gone || {})) {
      for (const one of keys) this[kind].delete(one);
      changed.add(kind);
    }
    for (const [kind, items] of Object.entries(delta.set || {})) {
      for (const item of items) this[kind].set(item.key, item);
      changed.add(kind);
    }
    return changed;
  }
}

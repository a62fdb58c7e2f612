// The server of `memledger view`: the page asks it for the document, and asks the trace about moments of the run.

import { ask } from "./ask";
import { showBlocks } from "./blocks";
import { setBlockAction } from "./details";
import { announce, byId, el, fill } from "./dom";
import type { Answer, Details, Overview } from "./messages";
import { RULES, type Rule } from "./rules";
import { change, state } from "./state";
import { bytes, count, time } from "./text";
import { redrawTimeline, type Marking } from "./timeline";

export interface Server {
  marking: Marking;
  dataset: string;
  /** An answer that is not wanted any more ends the pass that it takes. */
  get<Result>(path: string, values?: Record<string, string>, signal?: AbortSignal): Promise<Result>;
  load(progress: (text: string) => void): Promise<ArrayBuffer>;
}

interface Progress {
  fraction?: number;
  events?: number;
  ready?: boolean;
  changed?: boolean;
  error?: string;
  notes?: string[];
}

export function startServer(token: string): Server {
  const address = (path: string, values: Record<string, string> = {}) => `${path}?${new URLSearchParams({ ...values, token })}`;
  const fetched = async (path: string, values?: Record<string, string>, signal?: AbortSignal): Promise<Response> => {
    let response: Response;
    try {
      response = await fetch(address(path, values), { signal });
    } catch {
      throw new Error("memledger view does not answer: it has ended, or was stopped.");
    }
    if (response.ok) return response;
    const body = await response.json().catch(() => ({}));
    throw new Error(body.error ?? `memledger view answered with ${response.status}.`);
  };
  const server: Server = {
    marking: { a: null, b: null, set() {}, between() {} },
    dataset: "report",
    get: async (path, values, signal) => (await fetched(path, values, signal)).json(),
    load: async (show) => {
      await progress(address("/api/progress"), show);
      return (await fetched("/api/page")).arrayBuffer();
    },
  };
  return server;
}

/** Waits until the server has read the trace; keeps listening for a trace that grows. */
function progress(url: string, show: (text: string) => void): Promise<void> {
  return new Promise((resolve) => {
    const events = new EventSource(url);
    events.onmessage = ({ data }) => {
      const message = JSON.parse(data) as Progress;
      if (message.ready) resolve();
      else if (message.changed) grown();
      else if (message.error) failed(message.error);
      else if (message.fraction !== undefined) {
        show(`Reading the trace: ${Math.floor(100 * message.fraction)} %, ${count(message.events ?? 0)} events`);
        byId("status").style.setProperty("--done", `${100 * message.fraction}%`);
      }
    };
    events.onerror = () => resolve();
  });
}

/** A sentence above the figures. */
function notice(kind: string, ...children: (Node | string)[]): void {
  const old = document.getElementById("notice");
  const made = el("p", { id: "notice", class: kind, role: "status" }, ...children);
  if (old) old.replaceWith(made);
  else byId("tiles").before(made);
}

function grown(): void {
  const button = el("button", { type: "button", onclick: () => location.reload() }, "Show them");
  notice("", "The trace has grown: there are newer events. ", button);
}

function failed(sentence: string): void {
  notice("bad", sentence);
}

export function showServer(server: Server, overview: Overview, update: () => void): void {
  const section = byId("question");
  section.hidden = false;
  const { marking } = server;
  const rule = (): Rule => RULES.find(({ name }) => name === state.rule) ?? RULES.find(({ name }) => name === "grown")!;
  const select = el("select", { id: "rule", "aria-label": "Rule", onchange: () => change({ rule: select.value }) }, ...RULES.map(({ name, about }) => el("option", { value: name, title: about }, name)));
  const moments = ["a", "b", "c", "d"].map((name) => {
    const input = el("input", { type: "text", id: `moment-${name}`, size: 12, spellcheck: "false", placeholder: name === "a" ? "start" : "end", title: "1.5s, 200ms, 50%, start, peak, end, bookmark:NAME, or nanoseconds" });
    const label = el("label", {}, `${name.toUpperCase()} `, input);
    return { name, input, label };
  });
  const about = el("p", { class: "hint" });
  const found = el("p", { class: "found", role: "status" });
  const back = el("button", { type: "button", hidden: true, onclick: () => void reset() }, "back to the report");
  const form = el("form", {
    onsubmit: (event: Event) => (event.preventDefault(), void run()),
  }, select, ...moments.map(({ label }) => label), el("button", { type: "submit", class: "ask" }, "Ask"), back);
  fill(section, el("div", { class: "bar" }, el("h2", { id: "question-title" }, "Ask the trace"), form), about, found);

  const [a, b] = moments.map(({ input }) => input);
  const fields = () => {
    select.value = rule().name;
    about.textContent = `${rule().about}. ${rule().picture} Drag over the timeline to set A and B.`;
    for (const { name, label } of moments) label.hidden = !rule().moments.includes(name);
  };
  let question: Record<string, string> = {};
  const run = async (isExact = false) => {
    change({ rule: rule().name, a: a.value.trim(), b: b.value.trim() });
    fields();
    question = { rule: rule().name, ...(isExact ? { exact: "1" } : {}) };
    for (const { name, input } of moments) {
      const typed = input.value.trim() || (name === "a" ? "start" : "");
      if (rule().moments.includes(name) && typed) question[name] = typed;
    }
    found.className = "found";
    found.textContent = "Asking…";
    try {
      const answer = await server.get<Answer>("/api/query", question);
      await ask({ do: "answer", answer });
      marking.a = answer.a_ns ?? null;
      marking.b = rule().moments.includes("b") ? (answer.b_ns ?? null) : null;
      const { blocks = 0, bytes: size = 0 } = answer.totals;
      const share = overview.totals.peak_bytes ? `, at the peak the program held ${bytes(overview.totals.peak_bytes)}` : "";
      found.textContent = `${rule().name}: ${count(blocks)} blocks, ${bytes(size)}${share}.`;
      announce(found.textContent);
      const moved = (answer.moved ?? []).map(({ position, at_ns }) => `${position.toUpperCase()} is at ${time(at_ns)}`);
      if (moved.length) {
        const exact = el("button", { type: "button", onclick: () => void run(true) }, "exactly");
        found.append(` By the nearest steps of the index: ${moved.join(", ")}. `, exact);
      }
      back.hidden = false;
      server.dataset = "answer";
      redrawTimeline();
      update();
    } catch (error) {
      found.className = "found bad";
      found.textContent = error instanceof Error ? error.message : String(error);
    }
  };
  const reset = async () => {
    await ask({ do: "answer", answer: null });
    marking.a = marking.b = null;
    server.dataset = "report";
    change({ rule: "", a: "", b: "" });
    found.textContent = "";
    back.hidden = true;
    redrawTimeline();
    update();
  };
  marking.set = (which, at_ns) => {
    (which === "a" ? a : b).value = String(at_ns);
    marking[which] = at_ns;
    redrawTimeline();
    announce(`${which.toUpperCase()} is at ${time(at_ns)}`);
    if (marking.a !== null && (marking.b !== null || !rule().moments.includes("b"))) void run();
  };
  marking.between = (from, to) => {
    [a.value, b.value] = [`${from}`, `${to}`];
    if (!rule().moments.includes("b")) change({ rule: "grown" });
    void run();
  };
  setBlockAction((node: Details) => void showBlocks(server, question, node));
  select.addEventListener("change", fields);
  fields();
  [a.value, b.value] = [state.a, state.b];
  if (state.rule) void run();
}

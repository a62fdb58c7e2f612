// In server mode: the single blocks of a part of the graph, their stacks, and what became of each.

import { ask } from "./ask";
import { el, fill } from "./dom";
import type { Details } from "./messages";
import type { Server } from "./server";
import { bytes, count, shownPath, time, visible } from "./text";

export interface Block {
  address: string;
  bytes: number;
  allocated_at_ns: number;
  freed_at_ns: number | null;
  thread: string | number | null;
  bucket: number;
  /** The event that it began with: its allocation, or its last reallocation. */
  event: number | null;
}

interface Step {
  what: string;
  at_ns: number;
  bytes: number;
  bytes_before?: number;
  address: string;
  /** Who did it; scopes are unknown for a free in a trace without scopes of frees. */
  thread?: string | null;
  path?: string[] | null;
}

const LIMIT = 200;
/** The maximum number of buckets in a request, so that its address has at most some 8 KiB. */
const MOST_BUCKETS = 1_500;

/** Says for how long the trace is being read, until the function that it returns is called. */
function asking(place: HTMLElement): () => void {
  const says = el("p", { class: "empty", role: "status" }, "Asking…");
  fill(place, says);
  const started = performance.now();
  const timer = setInterval(() => {
    says.textContent = `Reading the trace again for single blocks: ${Math.round((performance.now() - started) / 1000)} s`;
  }, 1000);
  return () => clearInterval(timer);
}

export async function showBlocks(server: Server, question: Record<string, string>, node: Details): Promise<void> {
  const body = el("div", { class: "blocks" });
  const closed = new AbortController();
  const name = visible(node.text);
  const dialog = el(
    "dialog",
    { class: "wide", "aria-label": `Blocks of ${name}`, onclose: () => (closed.abort(), dialog.remove()) },
    el("div", { class: "bar" }, el("h2", {}, "Blocks of ", el("bdi", {}, name.slice(0, 200))), el("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "close")),
    body,
  );
  document.body.append(dialog);
  dialog.showModal();
  const done = asking(body);
  try {
    const values: Record<string, string> = { ...question, limit: String(LIMIT) };
    const buckets = await ask<number[]>({ do: "buckets", view: node.view, node: node.node });
    // Everything needs no list of what it consists of.
    if (node.path.length > 1) values.bucket = buckets.slice(0, MOST_BUCKETS).join(",");
    const { blocks } = await server.get<{ blocks: Block[] }>("/api/blocks", values, closed.signal);
    fill(body, blocks.length ? table(server, blocks, closed.signal) : el("p", { class: "empty" }, "There are no such blocks."), el("div", { class: "history" }));
  } catch (error) {
    fill(body, el("p", { class: "bad" }, error instanceof Error ? error.message : String(error)));
  } finally {
    done();
  }
}

function table(server: Server, blocks: Block[], signal: AbortSignal): HTMLElement {
  const row = (block: Block) => {
    const show = () => void history(server, block, signal);
    const cell = (text: string) => el("td", {}, text);
    return el(
      "tr",
      {},
      el("td", { title: `${count(block.bytes)} B` }, bytes(block.bytes)),
      cell(time(block.allocated_at_ns)),
      cell(block.freed_at_ns == null ? "live" : time(block.freed_at_ns)),
      cell(block.freed_at_ns == null ? "" : time(block.freed_at_ns - block.allocated_at_ns)),
      cell(visible(String(block.thread ?? ""))),
      el("td", {}, el("button", { type: "button", onclick: show }, visible(block.address))),
    );
  };
  const heads = ["bytes", "allocated at", "freed at", "lived", "thread", "address"];
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...blocks.map(row)));
}

async function history(server: Server, block: Block, signal: AbortSignal): Promise<void> {
  const place = document.querySelector<HTMLElement>("dialog .history")!;
  const done = asking(place);
  try {
    const stack = await ask<string[]>({ do: "stack", bucket: block.bucket });
    const answer = await server.get<{ history: Step[] }>("/api/block", { event: String(block.event) }, signal);
    const steps = answer.history;
    const line = (step: Step) => {
      const size = step.bytes_before === undefined ? bytes(step.bytes) : `${bytes(step.bytes_before)} → ${bytes(step.bytes)}`;
      const by = step.thread ? `by ${step.thread}` : "";
      const scope = step.path?.length ? `in ${shownPath(step.path).join(" > ")}` : "";
      const parts = [time(step.at_ns), step.what.replaceAll("_", " "), size, step.address, by, scope];
      return el("li", {}, visible(parts.filter(Boolean).join(", ")));
    };
    fill(
      place,
      el("h3", {}, `The block at ${visible(block.address)}`),
      el("ol", {}, ...steps.map(line)),
      el("h3", {}, "Where it was allocated"),
      el("ol", { class: "source" }, ...stack.map((name) => el("li", {}, el("bdi", {}, visible(name))))),
    );
    place.scrollIntoView({ block: "nearest" });
  } catch (error) {
    fill(place, el("p", { class: "bad" }, error instanceof Error ? error.message : String(error)));
  } finally {
    done();
  }
}

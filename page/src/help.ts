// The keys, what the words mean, and whose code is in the page.

import { el } from "./dom";

const KEYS: [string, string][] = [
  ["?", "this list"], ["/", "search in the graph"], ["t", "find rows in the table"], ["Esc", "close, or show everything again"],
  ["1 2 3 4", "live, peak, allocated, count"], ["s g k", "by scope, by group, by call stack"], ["i f m", "icicle, flame graph, treemap"],
  ["u", "top-down or bottom-up"], ["o", "left-heavy or by time"], ["d", "light or dark"], ["Backspace", "zoom out one level"],
  ["Arrow keys", "move in the graph, in a table, on the timeline"], ["Enter", "zoom in; in a table: show the row in the graph"],
  ["+ − 0", "on the timeline: zoom in, out, everything"], ["Drag", "on the timeline: zoom to what is dragged over"],
];

const SERVER_KEYS: [string, string][] = [["a b", "on the timeline: set A or B at the cursor"], ["Drag", "on the timeline: set A and B; with Shift, zoom"]];

const WORDS: [string, string][] = [
  ["live", "allocated and not freed: at the end, unless another time is named"],
  ["peak", "what was live when the whole program held most; “own peak” is the most that one row ever held"],
  ["allocated", "all bytes ever allocated, freed or not; a reallocation adds its new size"],
  ["count", "allocations, reallocations not among them"],
  ["short-lived", "blocks that their thread freed before it allocated again"],
  ["with all inside", "a scope with the scopes in it, a function with what it called"],
];

let dialog: HTMLDialogElement | null = null;

export function toggleHelp(isServer: boolean): void {
  if (dialog?.open) {
    dialog.close();
    return;
  }
  dialog ??= made(isServer);
  if (!dialog.isConnected) document.body.append(dialog);
  dialog.showModal();
}

function made(isServer: boolean): HTMLDialogElement {
  const list = (pairs: [string, string][], tag: "kbd" | "b") =>
    el("dl", {}, ...pairs.flatMap(([key, text]) => [el("dt", {}, el(tag, {}, key)), el("dd", {}, text)]));
  const keys = isServer ? KEYS.filter(([key]) => key !== "Drag").concat(SERVER_KEYS) : KEYS;
  const licenses = el("details", {}, el("summary", {}, "Whose code is in this page"));
  // Markup of this page itself, made when it was built.
  licenses.append((document.getElementById("licenses") as HTMLTemplateElement).content.cloneNode(true));
  return el(
    "dialog",
    { id: "help", "aria-labelledby": "help-title" },
    el("div", { class: "bar" }, el("h2", { id: "help-title" }, "Keys and words"), el("button", { type: "button", autofocus: true, onclick: () => dialog!.close() }, "close")),
    el("div", { class: "columns" }, list(keys, "kbd"), list(WORDS, "b")),
    licenses,
  );
}

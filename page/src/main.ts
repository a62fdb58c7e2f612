// Starts the page: takes the document from the file, or from the server that serves the page, and shows its parts.

import { ask, loadHere } from "./ask";
import { showChanges } from "./changes";
import { setHasStacks } from "./details";
import { byId, el, fill } from "./dom";
import { showFindings } from "./findings";
import { setDefaults, setFilterNames, showAll, showGraph, useDataset, zoomOut } from "./graph";
import { showHeader, showNotes, showTiles } from "./header";
import { toggleHelp } from "./help";
import type { Link, Overview } from "./messages";
import { showServer, startServer, type Server } from "./server";
import { change, state } from "./state";
import { restart, showTables } from "./tables";
import { startTheme, toggleTheme } from "./theme";
import { showTimeline } from "./timeline";
import { setShorts, visible } from "./text";

declare global {
  interface Window {
    memledgerServer?: { token: string };
  }
}

const server: Server | null = window.memledgerServer ? startServer(window.memledgerServer.token) : null;

function showTools(): void {
  const button = (text: string, title: string, run: () => void) => el("button", { type: "button", class: "quiet", title, onclick: run }, text);
  fill(
    byId("tools"),
    button("light / dark", "Other colours (d)", toggleTheme),
    button("print", "Print, or save as PDF", () => print()),
    button("keys ?", "Keys and words (?)", () => toggleHelp(server !== null)),
  );
  fill(byId("foot"), "Made by memledger. Sizes are bytes as the program asked for them; times are since the trace began.");
}

/** Shows a row or a finding in the graph. */
async function follow(link: Link): Promise<void> {
  if ("filter" in link) {
    const isSet = link.filter.thread === state.filter.thread;
    change({ filter: isSet ? {} : link.filter });
  } else if ("pivot" in link) change({ by: "stack", pivot: link.pivot, focus: [], direction: "down", lines: false });
  else {
    const focus = await ask<number[]>({ do: "focus", link: link.focus });
    change({ by: link.by, focus, pivot: -1, direction: "down" });
  }
  byId("graph").scrollIntoView({ block: "nearest" });
}

/** A document of at most this number of characters in base64 is shown at once. */
const SMALL = 1 << 16;

const nextTask = () => new Promise<void>((resolve) => setTimeout(resolve));

/** `pause` comes between the parts. */
async function show(overview: Overview, pause: () => Promise<void>): Promise<void> {
  byId("status").hidden = true;
  setHasStacks(overview.hasStacks);
  setShorts(overview.shorts);
  const names = { ...overview.rowNames, thread: overview.threads };
  setFilterNames((key, number) => visible(names[key][number] ?? ""));
  setDefaults(overview);
  showHeader(overview);
  showNotes(overview);
  showTiles(overview);
  showChanges(overview.diff);
  await pause();
  showFindings(overview, (link) => void follow(link));
  showTimeline(overview, server?.marking ?? null);
  await pause();
  showGraph(overview);
  await pause();
  showTables(overview, (link) => void follow(link));
  if (server) showServer(server, overview, () => (useDataset(server.dataset), restart()));
  document.body.dataset.ready = "true";
}

function fail(error: unknown): void {
  const sentence = error instanceof Error ? error.message : String(error);
  const status = byId("status");
  status.hidden = false;
  status.className = "bad";
  status.setAttribute("role", "alert");
  status.textContent = `This report cannot be shown: ${sentence}`;
  document.body.dataset.ready = "failed";
}

async function start(): Promise<void> {
  startTheme();
  showTools();
  if (server) {
    const json = await server.load((text) => (byId("status").textContent = text));
    const overview = await ask<Overview>({ do: "load", json });
    return show(overview, nextTask);
  }
  const data = document.getElementById("memledger-data");
  if (!data) throw new Error("there is no data in this file. It is the template that reports are made from.");
  const base64 = data.textContent!.trim();
  data.remove();
  // NOTE: no task begins before the load event, so what looks at the page then, as what prints it does, finds its figures.
  if (base64.length <= SMALL) return show(loadHere(base64), async () => {});
  // The head of the page is painted before the work begins.
  await new Promise(requestAnimationFrame);
  await nextTask();
  const overview = await ask<Overview>({ do: "load", base64 });
  // Each part in a task of its own, so that none of them is long.
  return show(overview, nextTask);
}

const KEYS: Record<string, () => void> = {
  "?": () => toggleHelp(server !== null),
  "/": () => byId("graph-search").focus(),
  t: () => byId("table-search").focus(),
  "1": () => change({ metric: "live" }),
  "2": () => change({ metric: "peak" }),
  "3": () => change({ metric: "allocated" }),
  "4": () => change({ metric: "count" }),
  s: () => change({ by: "scope", focus: [], pivot: -1 }),
  g: () => change({ by: "group", focus: [], pivot: -1 }),
  k: () => byId("graph").querySelector<HTMLButtonElement>("[data-value=stack]:not(:disabled)")?.click(),
  i: () => change({ graph: "icicle" }),
  f: () => change({ graph: "flame" }),
  m: () => change({ graph: "treemap" }),
  u: () => change({ direction: state.direction === "up" ? "down" : "up", focus: [] }),
  o: () => byId("graph").querySelector<HTMLButtonElement>(`[data-value=${state.order === "time" ? "heavy" : "time"}]:not(:disabled)`)?.click(),
  d: toggleTheme,
  Backspace: zoomOut,
  Escape: showAll,
};

addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement && event.target.type !== "checkbox";
  if (isTyping || event.target instanceof HTMLSelectElement || event.ctrlKey || event.altKey || event.metaKey) return;
  if (document.querySelector("dialog[open]") && event.key !== "?") return;
  const run = document.body.dataset.ready === "true" || "?d".includes(event.key) ? KEYS[event.key] : undefined;
  if (!run || event.defaultPrevented) return;
  event.preventDefault();
  run();
});

start().catch(fail);

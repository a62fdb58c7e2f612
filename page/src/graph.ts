// The graph: flame graph, icicle and treemap of one set of figures, with what steers them.

import { ask, latest } from "./ask";
import { draw, find, nameOf, ROW, rowTop, type Look } from "./canvas";
import { announce, byId, choice, el, fill, inLine, perFrame, settled } from "./dom";
import { clearDetails, setDetailActions, showDetails } from "./details";
import { ANSWER_METRICS, METRICS, type Metric } from "./figures";
import { FLAG, type By, type Details, type Layout, type Overview, type Query } from "./messages";
import { change, state, watch } from "./state";
import { bytes, count, percent, short, visible } from "./text";
import { color, onTheme } from "./theme";

let dataset = "report";
let layout: Layout | null = null;
let hovered = -1;
let selected = -1;
let scrollKey = "";
const parts = {} as {
  frame: HTMLElement; scroller: HTMLElement; space: HTMLElement; canvas: HTMLCanvasElement; crumbs: HTMLElement;
  sum: HTMLElement; empty: HTMLElement; hint: HTMLElement;
};

export const metrics = (): Metric[] => (dataset === "answer" ? ANSWER_METRICS : METRICS);
export const metric = (): Metric => metrics().find(({ name }) => name === state.metric) ?? metrics()[0];
export const currentDataset = () => dataset;

/** What the state says is to be drawn. */
export function query(): Query {
  return {
    dataset, by: state.by || "scope", column: metric().column, filter: state.filter, direction: state.direction,
    focus: state.focus, pivot: state.by === "stack" ? state.pivot : -1, order: state.order, search: state.search,
    allFrames: state.frames, lines: state.lines && state.by === "stack",
  };
}

const look = (): Look => ({
  base: color(metric().color), isBytes: /bytes/.test(metric().column), isUpsideDown: state.graph === "flame",
  isSearching: state.search.trim() !== "", hovered, selected,
});

/** What is looked at first, where the address does not say it. */
export function setDefaults(overview: Overview): void {
  if (!state.by || (!overview.hasStacks && /stack|crate/.test(state.by))) {
    state.by = overview.isOfFunctions ? "stack" : overview.rows.scopes > 1 || overview.rows.groups < 2 ? "scope" : "group";
  }
  if (!metrics().some(({ name }) => name === state.metric)) state.metric = metrics()[1].name;
}

export function showGraph(overview: Overview): void {
  const section = byId("graph");
  section.hidden = false;
  build(section, overview);
  const keys = ["graph", "by", "metric", "direction", "order", "focus", "pivot", "filter", "search", "frames", "lines"] as const;
  watch([...keys], request);
  onTheme(perFrame(paint));
  new ResizeObserver(settled(60, request)).observe(parts.frame);
  request();
}

function build(section: HTMLElement, overview: Overview): void {
  const noStacks = "The trace has no call stacks";
  const graphs = choice("Kind of graph", [
    ["icicle", "icicle", "The outermost at the top"], ["flame", "flame", "The outermost at the bottom"], ["treemap", "treemap", "Areas instead of widths"],
  ], () => state.graph, (graph) => change({ graph }));
  const bys = choice<By>("Grouped by", [
    ["scope", "scope", "Scopes, and the names in them"], ["group", "group", "Groups, and the names in them"],
    ["stack", "stack", "Call stacks, by function"], ["crate", "crate", "Call stacks, by crate"], ["thread", "thread", "Threads, and the scopes in them"],
  ], () => state.by || "scope", (by) => change({ by, focus: [], pivot: -1 }));
  const values = METRICS.concat(ANSWER_METRICS).map(({ name, about }) => [name, name, about] as const);
  const shown = choice("Figure", values, () => metric().name, (name) => change({ metric: name }));
  shown.element.classList.add("metrics");
  const directions = choice("Direction", [
    ["down", "top-down", "From the outermost inwards"], ["up", "bottom-up", "From the one that allocates to its callers"],
  ], () => state.direction, (direction) => change({ direction, focus: [] }));
  const orders = choice("Order", [
    ["heavy", "left-heavy", "The largest first"], ["time", "by time", "In the order of their first appearance"],
  ], () => state.order, (order) => change({ order }));
  const frames: HTMLInputElement = el("input", { type: "checkbox", id: "all-frames", onchange: () => change({ frames: frames.checked, focus: [] }) });
  const framesLabel = el("label", { class: "check", title: "Also calls of the standard library and of allocation machinery" }, frames, "all frames");
  const linesBox: HTMLInputElement = el("input", { type: "checkbox", id: "lines", onchange: () => change({ lines: linesBox.checked, focus: [], pivot: -1 }) });
  const linesLabel = el("label", { class: "check", title: "Each line of a function that allocates or calls for itself" }, linesBox, "lines");
  const search: HTMLInputElement = el("input", {
    type: "search", id: "graph-search", placeholder: "Search", "aria-label": "Search names in the graph", spellcheck: "false",
    oninput: settled(120, () => change({ search: search.value })),
    onkeydown: (event: KeyboardEvent) => event.key === "Escape" && ((search.value = ""), change({ search: "" }), search.blur()),
  });
  parts.sum = el("output", { class: "sum", for: "graph-search" });
  parts.crumbs = el("nav", { class: "crumbs", "aria-label": "Where the graph is zoomed to" });
  parts.canvas = el("canvas", {
    tabindex: "0", role: "application", "aria-label": "Graph. Arrow keys move, Enter zooms in, Backspace zooms out.",
  });
  parts.space = el("div", { class: "space" });
  parts.scroller = el("div", { class: "scroller" }, parts.space, parts.canvas);
  parts.empty = el("p", { class: "empty", hidden: true });
  parts.hint = el("p", { class: "hint" });
  parts.frame = el("div", { class: "frame" }, parts.scroller, parts.empty);
  fill(
    section,
    el("div", { class: "bar" }, el("h2", { id: "graph-title", tabindex: "-1" }, "Who holds what"), shown.element, bys.element, graphs.element),
    el("div", { class: "bar second" }, directions.element, orders.element, framesLabel, linesLabel, el("span", { class: "search" }, search, parts.sum)),
    parts.crumbs,
    el("div", { class: "split" }, el("div", { class: "left" }, parts.frame, parts.hint), el("aside", { id: "details", "aria-label": "Details" })),
  );
  const update = () => {
    graphs.update();
    bys.update((by) => (!overview.hasStacks && /stack|crate/.test(by) ? noStacks : false));
    shown.update();
    for (const button of shown.element.children as Iterable<HTMLElement>) {
      button.hidden = !metrics().some(({ name }) => name === button.dataset.value);
    }
    directions.update();
    const isTimed = overview.hasStacks && /stack|crate/.test(state.by);
    orders.update((order) => (order === "time" && !isTimed ? "Only call stacks are in the order of time" : state.graph === "treemap" && order === "time" ? "A treemap has the largest first" : false));
    frames.checked = state.frames;
    framesLabel.hidden = !isTimed;
    linesBox.checked = state.lines;
    linesLabel.hidden = !isTimed || state.by !== "stack";
    if (document.activeElement !== search) search.value = state.search;
  };
  watch(["graph", "by", "metric", "direction", "order", "frames", "lines", "search", "pivot"], update);
  onDataset.push(update);
  update();
  listen();
  setDetailActions({ zoomTo: (node) => zoomTo(node), onlyThis, filterTo });
}

const onDataset: (() => void)[] = [];

/** Shows the report, or the answer of a server. */
export function useDataset(name: string): void {
  dataset = name;
  if (!metrics().some((one) => one.name === state.metric)) change({ metric: metrics()[name === "answer" ? 0 : 1].name });
  onDataset.forEach((run) => run());
  request();
}

/** Has the graph drawn as the state says. */
export function request(): void {
  const width = Math.floor(parts.scroller.clientWidth);
  if (width < 10) return;
  const asked = query();
  if (state.graph === "treemap") newest({ do: "treemap", query: asked, width, height: frameHeight() });
  else newest({ do: "flame", query: asked, width });
}

const frameHeight = () => Math.max(Math.round(Math.min(innerHeight * 0.62, 760)), 320);

const newest = latest<Layout>((made) => {
  const isNewView = scrollKey !== viewKey();
  layout = made;
  hovered = -1;
  selected = isNewView ? -1 : Math.min(selected, made.x.length - 1);
  const isEmpty = made.total === 0;
  parts.empty.hidden = !isEmpty;
  parts.empty.textContent = isEmpty ? emptySentence() : "";
  const isFlame = made.kind === "flame";
  const full = isFlame ? made.levels * ROW : frameHeight();
  const shown = isFlame ? Math.min(Math.max(full, 6 * ROW), frameHeight()) : full;
  parts.space.style.height = `${full}px`;
  parts.scroller.style.height = `${shown}px`;
  parts.hint.textContent = made.isCut ? "The deepest levels are left out here: zoom in to see them." : "";
  if (isNewView) {
    scrollKey = viewKey();
    parts.scroller.scrollTop = state.graph === "flame" ? full : 0;
    // What was zoomed to stays in the details, so that its buttons can be reached.
    selected = state.focus.length && isFlame ? made.crumbs.length - 1 : state.focus.length || state.pivot >= 0 ? 0 : -1;
    if (selected < 0) clearDetails();
  }
  if (selected >= 0) void show(selected);
  showCrumbs(made);
  const { search } = state;
  parts.sum.textContent = search.trim() ? `${figure(made.matched)} · ${percent(made.matched, made.total)} of all` : "";
  paint();
  parts.canvas.dataset.view = String(made.view);
});

function emptySentence(): string {
  if (Object.keys(state.filter).length) return "Nothing passes the filter.";
  return metric().name === "live" ? "Nothing is live." : "There is nothing to show.";
}

const viewKey = () => JSON.stringify([state.graph, state.by, state.direction, state.focus, state.pivot, state.frames, state.lines, dataset]);

export const figure = (value: number) => (/bytes/.test(metric().column) ? bytes(value) : count(value));

function paint(): void {
  if (!layout) return;
  const width = Math.floor(parts.scroller.clientWidth);
  const height = parseInt(parts.scroller.style.height, 10);
  draw(parts.canvas, layout, look(), parts.scroller.scrollTop, width, height);
}

const paintSoon = perFrame(paint);

function showCrumbs({ crumbs, total }: Layout): void {
  const chips: (HTMLElement | string)[] = [];
  const long = crumbs.length > 7;
  crumbs.forEach(({ text, value }, depth) => {
    if (long && depth > 1 && depth < crumbs.length - 4) {
      if (depth === 2) chips.push("…", " › ");
      return;
    }
    if (depth) chips.push(" › ");
    const isLast = depth === crumbs.length - 1;
    const title = `${visible(text)}: ${figure(value)}, ${percent(value, total)} of all`;
    const focus = state.focus.slice(0, depth);
    chips.push(el("button", { type: "button", title, disabled: isLast && !(depth === 0 && state.pivot >= 0), onclick: () => change({ focus }) }, inLine(short(text))));
  });
  const last = crumbs.at(-1)!;
  chips.push(el("span", { class: "value" }, `${figure(last.value)} ${metric().name}, ${percent(last.value, total)} of all`));
  if (state.pivot >= 0) {
    const about = state.direction === "up" ? "callers of this function, wherever it is" : "what this function called, wherever it is";
    chips.unshift(chip(about, () => change({ pivot: -1, focus: [] })));
  }
  for (const [key, number] of Object.entries(state.filter)) {
    const name = filterNames(key as "thread", number as number);
    const rest = Object.fromEntries(Object.entries(state.filter).filter(([other]) => other !== key));
    chips.unshift(chip(`only ${key} ${name}`, () => change({ filter: rest })));
  }
  fill(parts.crumbs, ...chips);
}

const chip = (text: string, drop: () => void) =>
  el("button", { type: "button", class: "chip", title: "Show all again", onclick: drop }, text, " ✕");

let filterNames: (key: "thread" | "scope" | "name", number: number) => string = (_, number) => String(number);
export function setFilterNames(names: typeof filterNames): void {
  filterNames = names;
}

/** From the root to a rectangle, as names. */
function pathTo(node: Details): number[] {
  return node.path.slice(1).map(({ label }) => label);
}

async function detailsOf(at: number): Promise<Details | null> {
  if (!layout || at < 0 || layout.flags[at] & FLAG.rest) return null;
  return ask<Details | null>({ do: "details", view: layout.view, node: at });
}

async function zoom(at: number): Promise<void> {
  const node = await detailsOf(at);
  if (node) zoomTo(node);
}

function zoomTo(node: Details): void {
  change({ focus: pathTo(node) });
}

function onlyThis(node: Details, direction: "up" | "down"): void {
  change({ by: "stack", pivot: node.path.at(-1)!.label, direction, focus: [] });
}

function filterTo(filter: { scope?: number; name?: number }): void {
  change({ filter: { ...state.filter, ...filter }, by: "stack", focus: [], pivot: -1, direction: "down" });
}

function listen(): void {
  const { canvas, scroller } = parts;
  const at = (event: MouseEvent) => {
    if (!layout) return -1;
    const { left, top } = canvas.getBoundingClientRect();
    return find(layout, event.clientX - left, event.clientY - top + (layout.kind === "flame" ? scroller.scrollTop : 0), state.graph === "flame");
  };
  canvas.addEventListener("pointermove", (event) => {
    const next = at(event);
    if (next === hovered) return;
    hovered = next;
    canvas.style.cursor = next >= 0 ? "pointer" : "default";
    paintSoon();
    void show(next >= 0 ? next : selected);
  });
  canvas.addEventListener("pointerleave", () => {
    hovered = -1;
    paintSoon();
    void show(selected);
  });
  canvas.addEventListener("click", (event) => {
    const node = at(event);
    if (node >= 0) void zoom(node);
  });
  scroller.addEventListener("scroll", paint, { passive: true });
  canvas.addEventListener("keydown", onKey);
  canvas.addEventListener("focus", () => {
    if (selected < 0 && layout) select(state.focus.length);
  });
}

/** PERF: one question at a time, and the newest. */
const detailsSoon = latest<Details | null>((node) => node && showDetails(node, metric(), dataset));

async function show(at: number): Promise<void> {
  if (!layout || at < 0) return;
  if (layout.flags[at] & FLAG.rest) return;
  detailsSoon({ do: "details", view: layout.view, node: at });
}

function select(at: number): void {
  if (!layout || at < 0 || at >= layout.x.length) return;
  selected = at;
  if (layout.kind === "flame") {
    const top = rowTop(layout, layout.y[at], state.graph === "flame");
    const { scroller } = parts;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    if (top + ROW > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + ROW - scroller.clientHeight;
  }
  paintSoon();
  void show(at);
  announce(`${nameOf(layout, at)}: ${figure(layout.value[at])}, ${percent(layout.value[at], layout.total)}`);
}

function onKey(event: KeyboardEvent): void {
  if (!layout || event.ctrlKey || event.altKey || event.metaKey) return;
  const { parent, y, x, depth } = layout;
  const here = Math.max(selected, 0);
  const rows = layout.kind === "flame" ? y : depth;
  const children = () => Array.from(parent.keys()).filter((at) => parent[at] === here);
  const beside = (step: number) => {
    const row = Array.from(rows.keys()).filter((at) => rows[at] === rows[here]).sort((a, b) => x[a] - x[b]);
    return row[row.indexOf(here) + step] ?? here;
  };
  const [inwards, outwards] = state.graph === "flame" ? ["ArrowUp", "ArrowDown"] : ["ArrowDown", "ArrowUp"];
  if (event.key === inwards) select(children()[0] ?? here);
  else if (event.key === outwards) select(parent[here]);
  else if (event.key === "ArrowRight") select(beside(1));
  else if (event.key === "ArrowLeft") select(beside(-1));
  else if (event.key === "Home") select(0);
  else if (event.key === "Enter" || event.key === " ") void zoom(here);
  else if (event.key === "Backspace") zoomOut();
  else return;
  event.preventDefault();
}

/** One level out, or out of what only one function is shown of. */
export function zoomOut(): void {
  if (state.focus.length) change({ focus: state.focus.slice(0, -1) });
  else if (state.pivot >= 0) change({ pivot: -1 });
}

/** Everything again. */
export function showAll(): void {
  change({ focus: [], pivot: -1, filter: {}, search: "" });
  byId<HTMLInputElement>("graph-search").value = "";
}

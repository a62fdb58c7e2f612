// What is looked at. It is in the fragment of the address, so that a reload, a bookmark or a sent file shows the same.

import type { By, Filter, TableName } from "./messages";

export interface State {
  graph: "flame" | "icicle" | "treemap";
  by: By | "";
  metric: string;
  direction: "down" | "up";
  order: "heavy" | "time";
  focus: number[];
  pivot: number;
  filter: Filter;
  search: string;
  frames: boolean;
  lines: boolean;
  table: TableName | "";
  sort: string;
  ascending: boolean;
  /** Whether rows have their own figures only; empty: where what they call has rows of its own. */
  own: "" | "on" | "off";
  find: string;
  chart: "bytes" | "blocks" | "stacked" | "lines";
  /** Whether the resident memory is drawn; empty: if live bytes can be seen beside it. */
  rss: "" | "on" | "off";
  from: number;
  to: number;
  rule: string;
  a: string;
  b: string;
}

const DEFAULTS: State = {
  graph: "icicle", by: "", metric: "", direction: "down", order: "heavy", focus: [], pivot: -1, filter: {}, search: "",
  frames: false, lines: false, table: "", sort: "", ascending: false, own: "", find: "", chart: "bytes", rss: "", from: -1, to: -1, rule: "",
  a: "", b: "",
};

const VALUES: Record<string, string[]> = {
  graph: ["flame", "icicle", "treemap"],
  by: ["stack", "crate", "scope", "group", "thread"],
  direction: ["down", "up"],
  order: ["heavy", "time"],
  chart: ["bytes", "blocks", "stacked", "lines"],
  rss: ["on", "off"],
  own: ["on", "off"],
  table: ["scopes", "groups", "names", "threads", "sizes", "functions", "stacks", "crates", "blocks", "tags"],
};

const isAllowed = (key: string, text: string) => VALUES[key]?.includes(text) ?? true;

export const state: State = read();

const listeners: { keys: Set<keyof State>; run: () => void }[] = [];

/** Runs when one of these has changed. */
export function watch(keys: (keyof State)[], run: () => void): void {
  listeners.push({ keys: new Set(keys), run });
}

/** Keys whose changes the button "back" takes back. */
const STEPS: (keyof State)[] = ["focus", "pivot", "filter", "by", "direction"];

export function change(part: Partial<State>): void {
  const changed = (Object.keys(part) as (keyof State)[]).filter((key) => !same(part[key], state[key]));
  if (!changed.length) return;
  Object.assign(state, part);
  const isStep = changed.some((key) => STEPS.includes(key));
  const fragment = `#${written()}`;
  // Some browsers allow a file no history; the page works without.
  try {
    history[isStep ? "pushState" : "replaceState"](null, "", fragment);
  } catch {
    location.replace(fragment);
  }
  notify(changed);
}

function notify(changed: (keyof State)[]): void {
  for (const { keys, run } of listeners) if (changed.some((key) => keys.has(key))) run();
}

addEventListener("popstate", () => {
  const next = read();
  const changed = (Object.keys(next) as (keyof State)[]).filter((key) => !same(next[key], state[key]));
  Object.assign(state, next);
  if (changed.length) notify(changed);
});

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

function written(): string {
  const parts = new URLSearchParams();
  for (const key of Object.keys(DEFAULTS) as (keyof State)[]) {
    const value = state[key];
    if (same(value, DEFAULTS[key])) continue;
    if (key === "focus") parts.set(key, state.focus.join("."));
    else if (key === "filter") parts.set(key, Object.entries(state.filter).map((pair) => pair.join("-")).join("."));
    else parts.set(key, value === true ? "1" : String(value));
  }
  return parts.toString();
}

/** What the fragment says; anything that it says wrongly is as if it were not there. */
function read(): State {
  const parts = new URLSearchParams(location.hash.slice(1));
  const found: Record<string, unknown> = structuredClone(DEFAULTS) as never;
  for (const [key, text] of parts) {
    const kind = DEFAULTS[key as keyof State];
    if (key === "focus") found[key] = text.split(".").map(Number).filter(Number.isInteger);
    else if (key === "filter") {
      const pairs = text.split(".").map((pair) => pair.split("-"));
      const known = pairs.filter(([name, number]) => /^(thread|scope|name)$/.test(name) && /^\d+$/.test(number ?? ""));
      found[key] = Object.fromEntries(known.map(([name, number]) => [name, Number(number)]));
    } else if (typeof kind === "number") found[key] = Number.isFinite(Number(text)) ? Number(text) : kind;
    else if (typeof kind === "boolean") found[key] = text === "1";
    else if (typeof kind === "string" && isAllowed(key, text)) found[key] = text;
  }
  return found as unknown as State;
}

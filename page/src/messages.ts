// What the page and its worker say to each other.

import type { Bookmark, Diff, Finding, PeakBy, Resident, Trace } from "./document";

/** What the levels of a graph are. */
export type By = "stack" | "crate" | "scope" | "group" | "thread";

/** Which buckets count: indices of `by_thread`, `by_scope` (with all inside it) and `by_name`. */
export interface Filter {
  thread?: number;
  scope?: number;
  name?: number;
}

/** What is drawn: which figures, of what, from where on. */
export interface Query {
  dataset: string;
  by: By;
  /** The column that widths and areas are of. */
  column: string;
  filter: Filter;
  /** From the outermost name inwards, or from the one that allocates to its callers. */
  direction: "down" | "up";
  /** The names from the outermost one to the one that is looked at. */
  focus: number[];
  /** Only what this function called, or what called it, wherever it is; -1: all. */
  pivot: number;
  order: "heavy" | "time";
  search: string;
  /** Each line of a function for itself. */
  lines: boolean;
  /** With the calls of the standard library and of allocation machinery that reports fold. */
  allFrames: boolean;
}

/** Rectangles, level by level; what is narrower than a pixel can show is summed up as one rectangle without a name. */
export interface Layout {
  view: number;
  kind: "flame" | "treemap";
  /** In pixels. */
  x: Float32Array;
  y: Float32Array;
  width: Float32Array;
  height: Float32Array;
  label: Int32Array;
  depth: Int16Array;
  parent: Int32Array;
  value: Float64Array;
  flags: Uint8Array;
  levels: number;
  /** The names by their numbers. */
  labels: Map<number, string>;
  /** The sum of everything that passes the filter, and of what is zoomed to. */
  total: number;
  focusValue: number;
  /** Levels from the root to the one that is looked at. */
  crumbs: { label: number; text: string; value: number }[];
  matched: number;
  /** Rectangles that were not made because there were too many. */
  isCut: boolean;
}

export const FLAG = { rest: 1, match: 2, library: 4, inner: 8, own: 16 } as const;

export interface Details {
  /** The layout and the rectangle in it that this is of. */
  view: number;
  node: number;
  path: { label: number; text: string }[];
  text: string;
  value: number;
  total: number;
  column: string;
  figures: Record<string, number>;
  own: Record<string, number>;
  sources: string[];
  /** The row of `by_scope` or `by_name` that this is. */
  scope: number;
  name: number;
  isFunction: boolean;
  /** How many of the named sources are not listed. */
  moreSources: number;
}

export type TableName = "scopes" | "groups" | "names" | "threads" | "sizes" | "functions" | "stacks" | "crates" | "blocks" | "tags";

export interface TableQuery {
  dataset: string;
  table: TableName;
  filter: Filter;
  search: string;
  sort: string;
  descending: boolean;
  inclusive: boolean;
  allFrames: boolean;
  from: number;
  to: number;
}

export interface TableRow {
  name: string;
  /** A second line or column: a file, a thread. */
  note?: string;
  figures: Record<string, number>;
  /** What a click shows. */
  link?: Link;
}

export type Link = { by: By; focus: string[] } | { pivot: number } | { filter: Filter };

export interface TablePart {
  total: number;
  columns: string[];
  rows: TableRow[];
  /** The largest figure of each column, for bars. */
  largest: Record<string, number>;
}

export interface Series {
  at_ns: Float64Array;
  columns: Record<string, Float64Array>;
  threads: { thread: number; name: string; live_bytes: Float64Array; allocated_bytes: Float64Array }[];
}

/** What the page shows outside of graphs and tables. */
export interface Overview {
  trace: Trace;
  /** The time that was asked for; null: the end. */
  moment: string | null;
  totals: Record<string, number | null>;
  resident: Resident | null;
  losses: Record<string, number | null>;
  after_report: Record<string, number>;
  bookmarks: Bookmark[];
  notes: string[];
  peakBy: PeakBy | null;
  findings: Finding[] | null;
  /** Why there are no findings, where they were looked for. */
  noneFound: string;
  sampling: number | null;
  threads: string[];
  /** What the filters are called, by the numbers of their rows. */
  rowNames: Record<"scope" | "name", string[]>;
  series: Series | null;
  diff: Diff | null;
  /** Of the trace that this one is compared with, without its threads. */
  oldSeries: Series | null;
  /** Readings of the resident memory. */
  rssSeries: { at_ns: Float64Array; rss_bytes: Float64Array } | null;
  hasStacks: boolean;
  /** Whether functions say who allocates, and neither scopes nor tags do. */
  isOfFunctions: boolean;
  rows: Record<TableName, number>;
  /** Names that are too long, with what is shown of each. */
  shorts: [string, string][];
  buckets: number;
}

/** Of a server: `memledger.view/1`. */
export interface Answer {
  a_ns?: number;
  b_ns?: number;
  /** Moments that the index has no step at: the nearest one was taken. */
  moved?: { position: string; asked_ns: number; at_ns: number }[];
  buckets: { bucket: number[] } & Record<string, number[]>;
  totals: Record<string, number>;
}

export type Request =
  | { do: "load"; base64?: string; json?: ArrayBuffer }
  | { do: "flame"; query: Query; width: number }
  | { do: "treemap"; query: Query; width: number; height: number }
  | { do: "details"; view: number; node: number }
  | { do: "buckets"; view: number; node: number }
  | { do: "table"; query: TableQuery }
  | { do: "focus"; link: string[] }
  | { do: "stack"; bucket: number }
  | { do: "answer"; answer: Answer | null };

// The document `memledger.page/1`, as `memledger report -o x.html` and `memledger view` write it. crates/export/src/html/mod.rs
// says what it holds; figures and keys are those of `memledger.report/1`.

/** The figures of a row, of a bucket, or of everything. */
export type Figures = Record<string, number>;

export interface Row extends Record<string, unknown> {
  path?: string[];
  group?: string[];
  name?: string;
  id?: number;
  min_bytes?: number;
  max_bytes?: number | null;
  inclusive?: Figures;
}

export interface Trace {
  program: string | null;
  pid: number | null;
  duration_ns: number;
  time_resolution_ns: number | null;
  events: number;
  from_process_start: boolean | null;
  complete: boolean;
  coverage: { word: "complete" | "complete_for" | "incomplete" };
}

export interface Bookmark {
  name: string;
  at_ns: number;
}

/** A function of a place, with the lines in which it calls. */
export interface Caller {
  function: string;
  file: string | null;
  lines: number[];
}

export interface Place {
  function: string | null;
  file: string | null;
  lines: number[];
  callers: Caller[];
  /** Where no function has all: the shares of the largest. */
  shares: { function: string; millionths: number }[];
  path: string[];
  group: string[];
  name: string | null;
  thread: string | null;
}

export interface Finding {
  kind: string;
  /** The kind in two or three words. */
  heading: string;
  evidence: string;
  suggestion: string;
  weight_millionths: number;
  weight_of: string;
  of_sample: boolean;
  place: Place;
}

/** Who has most of the peak. */
export interface PeakBy {
  evidence: string;
  weight_millionths: number;
  place: Place;
  /** Other sets that have much. */
  next?: PeakBy[];
}

export interface LiveBlock {
  address: string;
  bytes: number;
  thread: string | null;
  group: string[];
  name: string;
  path: string[];
  allocated_at_ns: number;
  /** A node of `stacks`. */
  stack?: number | null;
}

/** A column of whole numbers: base64 of the differences of neighbours, the first from 0, in zigzag and LEB128. */
export type Column = string;

export interface Timeline {
  at_ns: Column;
  live_bytes: Column;
  live_blocks: Column;
  peak_bytes: Column;
  allocated_bytes: Column;
  allocations: Column;
  frees: Column;
  reallocations: Column;
  threads?: { thread: number; live_bytes: Column; allocated_bytes: Column }[];
}

export interface DiffSide {
  name: string;
  trace: Trace;
  totals: Record<string, number | null>;
  losses: Record<string, number | null>;
}

export interface DiffRow {
  path: string[];
  state: string;
  change: number;
  old: (Figures & { inclusive?: Figures }) | null;
  new: (Figures & { inclusive?: Figures }) | null;
}

export interface Diff {
  column: string;
  old: DiffSide;
  new: DiffSide;
  tables: { by: string; new: number; gone: number; grown: number; shrunk: number; same: number; rows: DiffRow[] }[];
}

/** A memory tag of Unreal's engine: what the engine itself counted. */
export interface LlmTag {
  tracker: string;
  path: string[];
  samples: number;
  first_bytes: number;
  last_bytes: number;
  min_bytes: number;
  peak_bytes: number;
  peak_at_ns: number;
}

/** The resident memory as a sum, in the words of the text report. */
export interface Resident {
  all: string;
  when: string;
  parts: string;
  rest: string;
}

export interface PageDocument {
  schema: string;
  /** What is shown of strings that are too long. */
  short?: { string: Column; text: string[] };
  /** The time that was asked for; null: the end. */
  moment?: string | null;
  trace: Trace;
  totals: Record<string, number | null>;
  losses: Record<string, number | null>;
  after_report?: Figures;
  bookmarks: Bookmark[];
  by_scope: Row[];
  by_group: Row[];
  by_name: Row[];
  by_thread: Row[];
  by_size: Row[];
  largest_live: LiveBlock[];
  llm_tags?: LlmTag[];
  resident?: Resident;
  peak_by?: PeakBy | null;
  findings?: Finding[] | null;
  /** Why there are none. */
  none_found?: string;
  notes: string[];
  stack_sampling_bytes?: number | null;
  strings: string[];
  frames: { name: Column; file: Column; line: Column; crate: Column; folded: Column };
  stacks: { parent: Column; frame: Column };
  buckets: Record<string, Column>;
  timeline: Timeline | null;
  diff?: Diff | null;
  /** With `diff`: the timeline of the old trace. */
  old_timeline?: Timeline | null;
  /** The resident memory over time: the largest of some readings at a time. Missing where the trace has none. */
  rss_timeline?: { at_ns: Column; rss_bytes: Column };
}

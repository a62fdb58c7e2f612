// The names of figures: the same in tiles, buttons, graphs and tables.

export interface Metric {
  name: string;
  column: string;
  blocks: string;
  /** A colour of style.css. */
  color: string;
  about: string;
}

export const METRICS: Metric[] = [
  { name: "live", column: "live_bytes", blocks: "live_blocks", color: "live", about: "Bytes still live" },
  { name: "peak", column: "live_bytes_at_peak", blocks: "live_blocks_at_peak", color: "peak", about: "Bytes live when the whole program held most" },
  { name: "allocated", column: "allocated_bytes", blocks: "allocations", color: "allocated", about: "All bytes ever allocated" },
  { name: "count", column: "allocations", blocks: "allocations", color: "count", about: "Allocations" },
];

export const ANSWER_METRICS: Metric[] = [
  { name: "bytes", column: "bytes", blocks: "blocks", color: "live", about: "Bytes that the rule has found" },
  { name: "blocks", column: "blocks", blocks: "blocks", color: "count", about: "Blocks that the rule has found" },
];

/** By column: its heading, and what it means. */
export const COLUMNS: Record<string, [string, string]> = {
  live_bytes: ["live", "Bytes still live"],
  live_blocks: ["live blocks", "Blocks still live"],
  live_bytes_at_peak: ["at peak", "Bytes live when the whole program held most"],
  live_blocks_at_peak: ["blocks at peak", "Blocks live when the whole program held most"],
  peak_bytes: ["own peak", "The most bytes that this row held at any time"],
  allocated_bytes: ["allocated", "All bytes ever allocated"],
  allocations: ["count", "Allocations"],
  reallocations: ["reallocs", "Reallocations"],
  frees: ["frees", "Frees"],
  short_lived: ["short-lived", "Blocks that their thread freed before it allocated again"],
  bytes: ["bytes", "Bytes of the block, or of the blocks that were found"],
  blocks: ["blocks", "Blocks that were found"],
  declined_bytes: ["declined", "Bytes that went at the same time"],
  declined_blocks: ["declined blocks", "Blocks that went at the same time"],
  allocated_at_ns: ["allocated at", "When, since the trace began"],
  last_bytes: ["last", "The last value that the engine counted"],
  tag_peak_bytes: ["peak", "The largest value"],
  peak_at_ns: ["peak at", "When that was, since the trace began"],
  min_bytes: ["least", "The smallest value; the engine can count below 0"],
  first_bytes: ["first", "The first value"],
  samples: ["values", "How many values the trace has"],
};

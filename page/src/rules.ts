// The rules of `memledger query`, as docs/asking.md has them.

export interface Rule {
  name: string;
  /** Which of A, B, C and D it asks about. */
  moments: string;
  about: string;
  /** `o` allocated, `x` freed, `>` may live on. */
  picture: string;
}

const rule = (name: string, moments: string, about: string, picture: string): Rule => ({ name, moments, about, picture });

export const RULES: Rule[] = [
  rule("grown", "ab", "Allocated between A and B, live at B", "A o──B──>"),
  rule("leaked", "abc", "Allocated between A and B, live at C (the end, if it is empty)", "A o──B──C──>"),
  rule("live", "a", "Live at A", "o──A──>"),
  rule("allocated-between", "ab", "Allocated between A and B", "A o──B──>"),
  rule("freed-between", "ab", "Freed between A and B", "o──A──x B"),
  rule("short-lived", "ab", "Allocated and freed between A and B", "A o──x B"),
  rule("long-lived", "ab", "Allocated before A, live at B", "o──A──B──>"),
  rule("declined", "ab", "Live at A, freed between A and B", "o──A──x B"),
  rule("grown-and-declined", "ab", "What came between A and B and stayed, beside what went", "A o──B──>  o──A──x B"),
  rule("limited-lifetime", "abc", "Allocated between A and B, freed between B and C", "A o──B──x C"),
  rule("declined-long-lived", "abc", "Allocated before A, freed between B and C", "o──A──B──x C"),
  rule("specific-lifetime", "abcd", "Allocated between A and B, freed between C and D", "A o──B──C──x D"),
  rule("allocated-after", "a", "Allocated after A", "A o──>"),
  rule("freed-before", "a", "Freed before A", "o──x A"),
];

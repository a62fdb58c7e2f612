// Light or dark, and the colours that scripts draw with. style.css defines them all.

const media = matchMedia("(prefers-color-scheme: dark)");
const listeners: (() => void)[] = [];
let isPrinting = false;

export function onTheme(run: () => void): void {
  listeners.push(run);
}

function chosen(): string | null {
  try {
    return localStorage.getItem("memledger-theme");
  } catch {
    return null;
  }
}

export function isDark(): boolean {
  return document.documentElement.dataset.theme === "dark";
}

function apply(): void {
  const theme = isPrinting ? "light" : (chosen() ?? (media.matches ? "dark" : "light"));
  document.documentElement.dataset.theme = theme;
  for (const run of listeners) run();
}

export function toggleTheme(): void {
  const next = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("memledger-theme", next);
  } catch {
    // Without storage it holds until the page is loaded again.
  }
  document.documentElement.dataset.theme = next;
  for (const run of listeners) run();
}

export function startTheme(): void {
  media.addEventListener("change", apply);
  // Paper is light.
  addEventListener("beforeprint", () => ((isPrinting = true), apply()));
  addEventListener("afterprint", () => ((isPrinting = false), apply()));
  apply();
}

/** A colour of style.css. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

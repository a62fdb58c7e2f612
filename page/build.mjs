// Writes crates/export/src/html/page.html: the page with its script, its styles and the licences of its libraries in it.
// The same sources and the same package-lock.json give the same bytes.
import { build } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const at = (...parts) => join(here, ...parts);
const out = process.argv[2] ?? at("..", "crates", "export", "src", "html", "page.html");

/** Libraries whose code is in the page. */
const LIBRARIES = ["d3-hierarchy", "fflate", "uplot"];

const common = {
  bundle: true,
  minify: true,
  write: false,
  charset: "utf8",
  legalComments: "none",
  target: ["chrome110", "firefox113", "safari16.4"],
};

const bundled = await build({ ...common, entryPoints: [at("src", "script.ts")], format: "iife" });
const script = bundled.outputFiles[0].text.trimEnd();
const styles = await build({ ...common, entryPoints: [at("src", "style.css")] });

// In a script element these begin a comment or another element.
if (/<!--|<script|<\/script/i.test(script)) throw new Error("the script has a text in it that HTML reads as markup");

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
let licences = "";
await mkdir(at("LICENSES"), { recursive: true });
for (const name of LIBRARIES) {
  const { version, license, homepage } = JSON.parse(await readFile(at("node_modules", name, "package.json"), "utf8"));
  const text = (await readFile(at("node_modules", name, "LICENSE"), "utf8")).trim();
  await writeFile(at("LICENSES", `${name}.txt`), `${text}\n`);
  licences += `<h3>${escaped(`${name} ${version} (${license}) ${homepage ?? ""}`.trim())}</h3><pre>${escaped(text)}</pre>`;
}

const parts = { STYLES: styles.outputFiles[0].text.trimEnd(), LICENSES: licences, SCRIPT: script };
const template = await readFile(at("src", "page.html"), "utf8");
const page = template.replace(/\{\{([A-Z]+)\}\}/g, (_, part) => parts[part]);
await mkdir(dirname(out), { recursive: true });
await writeFile(out, page);
console.log(`${out}: ${(page.length / 1024).toFixed(0)} KiB`);

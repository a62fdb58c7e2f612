// The host of WebAssembly, for node: runs the program and prints its results, one JSON document.
//
//     node host.mjs PROGRAM.wasm [--clock]     --clock: with the time
import fs from "node:fs";

const [program, option] = process.argv.slice(2);
const compiled = new WebAssembly.Module(fs.readFileSync(program));
const host = { now: () => performance.now() };
const { exports } = new WebAssembly.Instance(compiled, { host });
const at = exports.run(option === "--clock" ? 1 : 0);
const results = new Uint8Array(exports.memory.buffer, at, exports.length());
process.stdout.write(new TextDecoder("utf-8", { fatal: true }).decode(results) + "\n");

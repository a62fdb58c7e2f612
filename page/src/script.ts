// The script of the page, and of its worker. NOTE: only one of the two is run, so `require` and not `import`.

declare const require: (path: string) => unknown;

if ("document" in self) require("./main");
else require("./worker/main");

export {};

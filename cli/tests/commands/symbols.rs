//! Symbols of real binaries, which the compiler makes here: with and without debug information,
//! split, stripped, of another build, and damaged.

mod kept;
mod unreal_trace;

use memledger_analysis::{Binaries, FileStamp, Module, SourceFrame, Symbolizer};
use memledger_test_support::command::{ran, told};
use memledger_test_support::memledger;
use memledger_test_support::pprof::Profile;
use object::{Object, ObjectSegment, ObjectSymbol};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use unreal_trace::Trace;

const SOURCE: &str = "\
pub struct Tree<T>(T);
impl Tree<Vec<u8>> {
    #[inline(always)]
    fn grow(&mut self, by: u8) {
        for at in 0..by { self.0.push(std::hint::black_box(at)); }
    }
}
#[inline(never)]
pub fn outer(by: u8) -> usize {
    let mut tree = Tree(Vec::new());
    tree.grow(by);
    tree.0.len()
}
#[unsafe(no_mangle)]
pub extern \"C\" fn exported(by: u8) -> usize { std::hint::black_box(outer(by)) + 1 }
#[unsafe(export_name = \"_ZN4tiny6legacy17h05af221e174051e9E\")]
#[inline(never)]
pub extern \"C\" fn legacy() -> usize { std::hint::black_box(1) }
#[unsafe(export_name = \"_ZN2ns3addEii\")]
#[inline(never)]
pub extern \"C\" fn add(a: usize) -> usize { std::hint::black_box(a) }
fn main() { std::process::exit((exported(3) + legacy() + add(1)) as i32); }
";

/// A folder with a program in it.
struct Program {
    folder: TempDir,
    path: PathBuf,
    /// The functions' names, addresses and sizes, from before it was stripped.
    functions: Vec<(String, u64, u64)>,
    module: Module,
}

fn is_run(command: &mut Command) -> bool {
    let output = command.stdin(Stdio::null()).output();
    output.is_ok_and(|output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        true
    })
}

fn parsed<T>(path: &Path, read: impl FnOnce(&object::File<'_>) -> T) -> T {
    let bytes = fs::read(path).expect("a file");
    read(&object::File::parse(&*bytes).expect("an object file"))
}

/// Compiles `SOURCE`; the build id depends on the flags.
fn compile(flags: &[&str]) -> Program {
    compile_source(SOURCE, flags)
}

fn compile_source(source: &str, flags: &[&str]) -> Program {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("tiny");
    fs::write(folder.path().join("tiny.rs"), source).expect("the source");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.current_dir(folder.path()).args(["--edition=2024", "-Copt-level=2", "-o", "tiny"]);
    command.args(["-Clink-arg=-Wl,--build-id=sha1", "tiny.rs"]).args(flags);
    assert!(is_run(&mut command), "rustc is needed for this test");
    Program::new(folder, path)
}

impl Program {
    fn new(folder: TempDir, path: PathBuf) -> Self {
        let (functions, build_id) = parsed(&path, |file| {
            let symbols = file.symbols().chain(file.dynamic_symbols());
            let functions = symbols.map(|symbol| {
                (symbol.name().unwrap_or("").to_owned(), symbol.address(), symbol.size())
            });
            let build_id = file.build_id().expect("notes").expect("a build id").to_vec();
            (functions.collect(), build_id)
        });
        let name = path.to_str().expect("UTF-8").to_owned();
        let module = Module::new(name, 0x5555_0000, 0, build_id);
        Self { folder, path, functions, module }
    }

    fn function(&self, part: &str) -> (u64, u64) {
        let found = self.functions.iter().find(|(name, ..)| name.contains(part));
        found.map(|(_, start, size)| (*start, *size)).expect("the function")
    }

    /// The frames of the first address in `outer` that is inlined into it, and the sentences.
    fn inlined(&self, folders: &[&Path]) -> (Vec<SourceFrame>, Vec<String>) {
        let (start, size) = self.function("outer");
        let mut binaries = symbolizer(folders);
        let mut all = (start..start + size).map(|address| binaries.frames(&self.module, address));
        let frames = all.find(|frames| frames.iter().any(|frame| frame.function.contains("grow")));
        (frames.unwrap_or_default(), binaries.take_notes())
    }
}

fn symbolizer(folders: &[&Path]) -> Binaries {
    let folders: Vec<_> = folders.iter().map(|folder| folder.to_path_buf()).collect();
    Binaries::new(&folders)
}

/// The inlined function and the one around it, with file and line.
fn assert_inlined((frames, notes): (Vec<SourceFrame>, Vec<String>)) {
    assert_eq!(notes, [""; 0]);
    let at = frames.iter().position(|frame| frame.function.contains("grow")).expect("grow");
    let [inner, outer] = &frames[at..] else { panic!("{frames:#?}") };
    assert_eq!(inner.function, "<tiny::Tree<alloc::vec::Vec<u8>>>::grow");
    assert_eq!((inner.line, outer.line), (Some(5), Some(11)));
    assert_eq!(outer.function, "tiny::outer");
    for frame in [inner, outer] {
        assert!(frame.file.as_ref().is_some_and(|file| file.ends_with("tiny.rs")), "{frame:?}");
    }
}

#[test]
fn inlined_functions_have_their_names_files_and_lines() {
    assert_inlined(compile(&["-g", "-Csymbol-mangling-version=v0"]).inlined(&[]));
}

#[test]
fn frames_of_a_black_box_get_their_functions() {
    let program = compile(&["-g", "-Csymbol-mangling-version=v0"]);
    let (start, _) = program.function("exported");
    let build_id: String = program.module.build_id.iter().map(|it| format!("{it:02x}")).collect();
    let place = format!("{}+{start:#x} build id {build_id}", program.path.display());
    let log = program.folder.path().join("server.log");
    fs::write(&log, format!("started\n  by stack\n        {place}\nended")).expect("a file");
    let (status, out, err) = memledger(&["symbolize".as_ref(), &*log]);
    assert_eq!(status, 0, "{err}");
    let named = out.strip_prefix("started\n  by stack\n        ").expect("the text before");
    let named = named.strip_suffix(&format!("  {place}\nended")).expect("the text after");
    assert!(named.starts_with("exported (") && named.ends_with("tiny.rs:15)"), "{named}");
    assert!(err.contains("1 frame is named"), "{err}");
    // Of another build from there on.
    let other = place.replace(&build_id, "00ff");
    fs::write(&log, format!("        {place}\n        {other}\n")).expect("a file");
    let (status, out, err) = memledger(&["symbolize".as_ref(), &*log]);
    assert!(status == 0 && out.ends_with(&format!("  {place}\n        {other}\n")), "{out}{err}");
    assert!(err.contains("is not the file that was loaded: its build id is"), "{err}");
    fs::write(&log, "{}\n").expect("a file");
    let (status, out, err) = memledger(&["symbolize".as_ref(), &*log]);
    assert!(status == 1 && out.is_empty() && err.contains("is no trace, and a text"), "{out}{err}");
    let (status, _, err) = memledger(&["symbolize".as_ref(), &*log, "-o".as_ref(), &log]);
    assert!(status == 2 && err.contains("it is also the input"), "{err}");
}

#[test]
fn names_of_rust_before_v0_and_of_cpp_are_demangled() {
    let program = compile(&["-Cdebuginfo=0"]);
    let mut binaries = symbolizer(&[]);
    for (mangled, name) in
        [("_ZN4tiny6legacy", "tiny::legacy"), ("_ZN2ns3add", "ns::add(int, int)")]
    {
        let (start, _) = program.function(mangled);
        let frames = binaries.frames(&program.module, start);
        assert_eq!(frames.iter().map(|frame| &*frame.function).collect::<Vec<_>>(), [name]);
    }
}

/// Each is also the encoding of a type of C++.
const SHORT_NAMES: [&str; 8] = ["d", "h", "v", "St", "Sa", "Pc", "RKi", "t"];

#[test]
fn names_of_c_stay_as_they_are() {
    let function = |name: &str| {
        format!(
            "#[unsafe(no_mangle)] #[inline(never)] pub extern \"C\" fn {name}(a: usize) -> usize \
                 {{ std::hint::black_box(a) + {} }}\n",
            name.as_ptr() as usize % 4096
        )
    };
    let calls = SHORT_NAMES.map(|name| format!("{name}(1)")).join(" + ");
    let source = SHORT_NAMES.map(function).concat();
    let source = format!("{source}fn main() {{ std::process::exit(({calls}) as i32); }}");
    assert_short_names(&compile_source(&source, &["-Cdebuginfo=0", "-Anonstandard_style"]));
}

/// The debug information of C++ says that they are C++, whose encoded names these are not.
#[test]
fn names_of_c_in_cpp_stay_as_they_are() {
    let folder = TempDir::new().expect("a folder");
    let function =
        |name: &str| format!("__attribute__((noinline)) int {name}() {{ return m++; }}\n");
    let (functions, calls) =
        (SHORT_NAMES.map(function).concat(), SHORT_NAMES.map(|name| format!("{name}();")).concat());
    let source = format!(
        "volatile int m; extern \"C\" {{\n{functions}}}\nint main() {{ {calls} return 0; }}"
    );
    fs::write(folder.path().join("tiny.cc"), source).expect("the source");
    let flags = ["-g", "-O1", "-gz=none", "-Wl,--build-id=sha1", "-o", "tiny", "tiny.cc"];
    if !is_run(Command::new("g++").current_dir(folder.path()).args(flags)) {
        eprintln!("g++ is not installed, so debug information of C++ is not tested");
        return;
    }
    let path = folder.path().join("tiny");
    assert_short_names(&Program::new(folder, path));
}

fn assert_short_names(program: &Program) {
    let mut binaries = symbolizer(&[]);
    for name in SHORT_NAMES {
        let found = program.functions.iter().find(|(function, ..)| function == name);
        let (_, start, size) = found.expect("the function");
        let frames = binaries.frames(&program.module, start + size / 2);
        assert_eq!(frames.iter().map(|frame| &*frame.function).collect::<Vec<_>>(), [name]);
    }
}

#[test]
fn split_debug_information_is_found_where_it_was_made_and_beside_the_program() {
    let packed = compile(&["-g", "-Csymbol-mangling-version=v0", "-Csplit-debuginfo=packed"]);
    assert!(packed.folder.path().join("tiny.dwp").exists());
    assert_inlined(packed.inlined(&[]));
    let parts = compile(&["-g", "-Csymbol-mangling-version=v0", "-Csplit-debuginfo=unpacked"]);
    assert_inlined(parts.inlined(&[]));

    // The program and its parts are taken elsewhere, where only their names lead to them.
    let other = TempDir::new().expect("a folder");
    for entry in fs::read_dir(parts.folder.path()).expect("entries") {
        let path = entry.expect("an entry").path();
        fs::rename(&path, other.path().join(path.file_name().expect("a name"))).expect("moved");
    }
    assert_inlined(parts.inlined(&[other.path()]));
    let (frames, notes) = parts.inlined(&[]);
    assert_eq!(frames, []);
    assert!(notes[0].starts_with("there is no file with the symbols of /"), "{notes:?}");
}

#[test]
fn without_debug_information_there_are_the_names_of_symbols() {
    let program = compile(&["-Cdebuginfo=0", "-Csymbol-mangling-version=v0"]);
    let mut binaries = symbolizer(&[]);
    let (start, _) = program.function("outer");
    let frames = binaries.frames(&program.module, start + 1);
    assert_eq!(frames.len(), 1, "{frames:?}");
    assert_eq!((&*frames[0].function, &frames[0].file), ("tiny::outer", &None));
    assert_eq!(binaries.take_notes(), [""; 0]);
}

#[test]
fn an_address_beyond_a_dynamic_symbol_has_no_name() {
    let flags = ["--crate-type=cdylib", "-Cdebuginfo=0", "-Cstrip=symbols"];
    let program = compile(&flags);
    let mut binaries = symbolizer(&[]);
    let (start, size) = program.function("exported");
    let mut name = |address| binaries.frames(&program.module, address).pop().map(|f| f.function);
    assert_eq!(name(start + size - 1).as_deref(), Some("exported"));
    assert_eq!(name(start + size), None);
    // It has not the name of a library.
    let says = format!(
        "{} has the names of exported functions only, because it was stripped; its other frames are the module \
         and an offset",
        program.path.display()
    );
    assert_eq!(binaries.take_notes(), [says]);
}

#[test]
fn a_stripped_program_is_noted_once() {
    let program = compile(&["-Cdebuginfo=0"]);
    let (start, _) = program.function("outer");
    if !objcopy(&["--strip-all", "tiny"], program.folder.path()) {
        return;
    }
    let mut binaries = symbolizer(&[]);
    for address in [start, start + 1] {
        assert_eq!(binaries.frames(&program.module, address), []);
    }
    let path = program.path.display();
    let expected = format!(
        "{path} has no symbols, because it was stripped; its frames are the module and an offset"
    );
    assert_eq!(binaries.take_notes(), [expected]);
}

/// The name of the function at an address, and the sentences.
fn name_at(program: &Program, address: u64) -> (Option<String>, Vec<String>) {
    let mut binaries = symbolizer(&[]);
    let frame = binaries.frames(&program.module, address).pop();
    (frame.map(|frame| frame.function), binaries.take_notes())
}

/// As Fedora installs its programs: without symbols, but with those of its functions in a section that is
/// compressed.
#[test]
fn mini_debug_info_has_the_names_of_functions() {
    let program = compile(&["-Cdebuginfo=0", "-Csymbol-mangling-version=v0"]);
    let folder = program.folder.path();
    if !objcopy(&["--only-keep-debug", "tiny", "mini"], folder) {
        return;
    }
    let (start, _) = program.function("outer");
    objcopy(&["--strip-all", "tiny"], folder);
    let (name, notes) = name_at(&program, start);
    assert_eq!((name, notes.len()), (None, 1), "{notes:?}");
    if !is_run(Command::new("xz").current_dir(folder).arg("mini")) {
        eprintln!("xz is not installed, so MiniDebugInfo is not tested");
        return;
    }
    let packed = fs::read(folder.join("mini.xz")).expect("it");
    let add = |packed: &[u8]| {
        fs::write(folder.join("mini.xz"), packed).expect("written");
        let section = ["--remove-section=.gnu_debugdata", "tiny"];
        objcopy(&section, folder);
        objcopy(&["--add-section=.gnu_debugdata=mini.xz", "tiny"], folder);
        name_at(&program, start)
    };
    assert_eq!(add(&packed), (Some("tiny::outer".to_owned()), vec![]));
    // A damaged one costs its own names only, and a sentence says so.
    let (name, notes) = add(&packed[..packed.len() / 2]);
    assert_eq!(name, None);
    let says = format!("the section .gnu_debugdata of {} cannot be read: ", program.path.display());
    assert!(notes[0].starts_with(&says), "{notes:?}");
    for at in (0..packed.len()).step_by(packed.len() / 40) {
        let mut damaged = packed.clone();
        damaged[at] ^= 0x55;
        add(&damaged);
    }
}

/// Code without a symbol, after a function without a size.
#[test]
fn a_function_of_the_compiler_does_not_name_what_follows_it() {
    let source = "\
std::arch::global_asm!(\".globl sizeless\", \".type sizeless,@function\", \"sizeless: ret\", \".fill 64, 1, 0x90\");
unsafe extern \"C\" { fn sizeless(); }
fn main() { unsafe { sizeless() } }
";
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let program = compile_source(source, &["-Cdebuginfo=0"]);
    let (start, _) = program.function("sizeless");
    assert_eq!(name_at(&program, start + 40).0.as_deref(), Some("sizeless"));
    for name in ["frame_dummy", "_init"] {
        let renamed = program.path.with_file_name("tiny.o");
        fs::copy(&program.path, &renamed).expect("copied");
        if !objcopy(&[&format!("--redefine-sym=sizeless={name}"), "tiny"], program.folder.path()) {
            return;
        }
        assert_eq!(name_at(&program, start + 40).0, None, "{name}");
        fs::rename(&renamed, &program.path).expect("moved");
    }
}

/// As nothing forbids: a folder, and a function.
#[test]
fn names_that_are_no_utf8_are_found_and_shown() {
    use std::os::unix::ffi::OsStrExt;
    let mut program = compile(&["-Cdebuginfo=0"]);
    let folder = program.folder.path().join(std::ffi::OsStr::from_bytes(b"d\xff"));
    let name = std::ffi::OsStr::from_bytes(b"exported=ex\xffported");
    let mut command = Command::new("objcopy");
    command.current_dir(program.folder.path());
    if !is_run(command.arg("--redefine-sym").arg(name).arg("tiny")) {
        eprintln!("objcopy is not installed, so names of functions are not tested");
        return;
    }
    fs::create_dir(&folder).expect("a folder");
    fs::rename(&program.path, folder.join("tiny")).expect("moved");
    program.module.path = program.path.with_file_name(r"d\xff").join("tiny").display().to_string();
    let (start, _) = program.function("exported");
    assert_eq!(name_at(&program, start), (Some(r"ex\xffported".to_owned()), vec![]));
}

#[test]
fn a_file_of_another_build_is_refused_once_with_both_build_ids() {
    let mut program = compile(&["-g"]);
    let actual =
        program.module.build_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    program.module.build_id = vec![0xab; 20];
    let (frames, notes) = program.inlined(&[program.folder.path()]);
    assert_eq!(frames, []);
    let path = program.path.display();
    assert_eq!(
        notes,
        [format!(
            "{path} is not the file that was loaded: its build id is {actual}, but that of {path} in \
             the trace is {}; its frames are the module and an offset",
            "ab".repeat(20)
        )]
    );
}

/// Runs objcopy, if it is installed.
fn objcopy(args: &[&str], folder: &Path) -> bool {
    let is_there = is_run(Command::new("objcopy").current_dir(folder).args(args));
    if !is_there {
        eprintln!("objcopy is not installed, so separate debug information is not tested");
    }
    is_there
}

#[test]
fn separate_debug_information_is_found_by_link_and_by_build_id() {
    let program = compile(&["-g", "-Csymbol-mangling-version=v0"]);
    let folder = program.folder.path();
    if !objcopy(&["--only-keep-debug", "tiny", "tiny.debug"], folder) {
        return;
    }
    objcopy(&["--strip-all", "--add-gnu-debuglink=tiny.debug", "tiny"], folder);
    assert_inlined(program.inlined(&[]));
    fs::create_dir(folder.join(".debug")).expect("a folder");
    fs::rename(folder.join("tiny.debug"), folder.join(".debug/tiny.debug")).expect("moved");
    assert_inlined(program.inlined(&[]));

    // By its name below a folder, by build id, and under any name: without the link, and without
    // the program.
    let id = program.module.build_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let by_id = format!(".build-id/{}/{}.debug", &id[..2], &id[2..]);
    for name in ["deep/within/tiny.debug", &by_id, "any-name"] {
        let other = TempDir::new().expect("a folder");
        let to = other.path().join(name);
        fs::create_dir_all(to.parent().expect("a folder")).expect("folders");
        fs::copy(folder.join(".debug/tiny.debug"), to).expect("copied");
        let mut elsewhere = program.module.clone();
        elsewhere.path = "/nowhere/tiny".to_owned();
        let (start, size) = program.function("outer");
        let mut binaries = symbolizer(&[other.path()]);
        let frames = (start..start + size).map(|address| binaries.frames(&elsewhere, address));
        assert!(frames.into_iter().any(|frames| frames.len() > 1), "{name}");
        assert_eq!(binaries.take_notes(), [""; 0], "{name}");
    }
}

#[test]
fn separate_debug_information_with_another_crc_is_refused() {
    let program = compile(&["-g"]);
    let folder = program.folder.path();
    let removed = ["--remove-section=.note.gnu.build-id", "tiny"];
    if !objcopy(&removed, folder) {
        return;
    }
    objcopy(&["--only-keep-debug", "tiny", "tiny.debug"], folder);
    objcopy(&["--strip-all", "--add-gnu-debuglink=tiny.debug", "tiny"], folder);
    let mut module = program.module.clone();
    module.build_id.clear();
    let (start, _) = program.function("outer");
    let mut binaries = symbolizer(&[]);
    assert_ne!(binaries.frames(&module, start), []);
    assert_eq!(binaries.take_notes(), [""; 0]);

    let mut bytes = fs::read(folder.join("tiny.debug")).expect("it");
    bytes.push(0);
    fs::write(folder.join("tiny.debug"), bytes).expect("written");
    let mut binaries = symbolizer(&[]);
    binaries.frames(&module, start);
    let notes = binaries.take_notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("tiny.debug is not the debug information of /"), "{notes:?}");
    assert!(notes[0].contains("its CRC is "), "{notes:?}");
}

/// Replaces a file by one of the same size, both without a build id.
#[test]
fn a_file_that_was_changed_is_refused_without_a_build_id() {
    use std::os::unix::fs::MetadataExt;
    let mut program = compile(&["-Cdebuginfo=0"]);
    if !objcopy(&["--remove-section=.note.gnu.build-id", "tiny"], program.folder.path()) {
        return;
    }
    let (start, _) = program.function("exported");
    program.module.build_id.clear();
    let file = fs::metadata(&program.path).expect("it");
    let changed_ns = (file.ctime() * 1_000_000_000 + file.ctime_nsec()) as u64;
    let mut stamp = FileStamp::default();
    (stamp.inode, stamp.changed_ns) = (file.ino(), changed_ns);
    let exported = (Some("exported".to_owned()), vec![]);
    for stamp in [None, Some(stamp)] {
        program.module.stamp = stamp;
        assert_eq!(name_at(&program, start), exported);
    }
    let says = format!(
        "{} is not the file that was loaded: it was changed or replaced since, and has no build id (the linker's \
         option --build-id makes one); its frames are the module and an offset",
        program.path.display()
    );
    let changes: [fn(&mut FileStamp); 2] =
        [|stamp| stamp.inode += 1, |stamp| stamp.changed_ns -= 1];
    for change in changes {
        change(program.module.stamp.insert(stamp));
        assert_eq!(name_at(&program, start), (None, vec![says.clone()]));
    }
    // A copy that the user has given is not where the program was.
    let copy = TempDir::new().expect("a folder");
    fs::rename(&program.path, copy.path().join("tiny")).expect("moved");
    let mut binaries = symbolizer(&[copy.path()]);
    assert_eq!(binaries.frames(&program.module, start)[0].function, "exported");
}

#[test]
fn damaged_files_never_panic() {
    let program = compile(&["-g", "-Clink-arg=-Wl,--compress-debug-sections=none"]);
    let whole = fs::read(&program.path).expect("the program");
    let (start, size) = program.function("outer");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    // Half of the changes are in the headers, which are at both ends.
    let headers = 64 * 40;
    for round in 0..60 {
        let mut bytes = whole.clone();
        for _ in 0..=round % 8 {
            let at = match next(4) {
                0 => next(headers),
                1 => whole.len() - 1 - next(headers),
                _ => next(whole.len()),
            };
            bytes[at] ^= 1 << next(8);
        }
        if round % 5 == 0 {
            bytes.truncate(next(whole.len()));
        }
        fs::write(&program.path, bytes).expect("written");
        let mut binaries = symbolizer(&[]);
        for offset in [0, start, start + size / 2, u64::MAX, next(1 << 20) as u64] {
            binaries.frames(&program.module, offset);
        }
    }
}

/// Status, standard output, standard error of `memledger`.
fn memledger(args: &[&Path]) -> (i32, String, String) {
    told(ran(memledger!(args)))
}

fn report(trace: &Path) -> serde_json::Value {
    let (status, out, err) = memledger(
        &["report", "--format", "json"]
            .map(Path::new)
            .into_iter()
            .chain([trace])
            .collect::<Vec<_>>(),
    );
    assert_eq!(status, 0, "{err}");
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn a_symbolized_trace_is_read_without_the_program() {
    let program = compile(&["-g", "-Csymbol-mangling-version=v0"]);
    let (start, size) = program.function("outer");
    let mut binaries = symbolizer(&[]);
    let inlined = |at: &u64| binaries.frames(&program.module, *at).len() > 1;
    let offset = (start..start + size).find(inlined).expect("an inlined function");
    // The second frame is in no module.
    let frames = [program.module.base + offset + 1, 0x77];
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let [plain, compact] = [path("run.utrace"), path("run.memledger")];
    fs::write(&plain, Trace::with_stack(&program.module, &frames, "")).expect("written");
    let export = ["export", "--to", "memledger", "-o"].map(Path::new);
    let (status, _, err) = memledger(&[&export[..], &[&compact, &plain]].concat());
    assert_eq!((status, &*err), (0, ""));

    let symbolize = |from: &Path, to: &Path| {
        let (status, out, err) = memledger(&["symbolize".as_ref(), from, "-o".as_ref(), to]);
        assert_eq!((status, &*out), (0, ""), "{err}");
        err
    };
    let with_program = report(&plain);
    let outputs = [&plain, &compact].map(|trace| {
        (
            trace,
            trace.with_file_name(format!(
                "named-{}",
                trace.display().to_string().rsplit('/').next().expect("a name")
            )),
        )
    });
    for (trace, named) in &outputs {
        let err = symbolize(trace, named);
        assert_eq!(err, "memledger: of the 1 address in the trace, 1 is with symbols\n");
    }
    fs::remove_file(&program.path).expect("removed");
    assert_ne!(report(&plain)["frames"], with_program["frames"]);
    for (_, named) in &outputs {
        let report = report(named);
        for key in ["totals", "by_stack", "by_function", "by_line", "frames"] {
            assert_ne!(report[key], serde_json::Value::Null, "{key}");
            assert_eq!(report[key], with_program[key], "{key} of {}", named.display());
        }
        assert!(report["frames"].to_string().contains("<tiny::Tree<alloc::vec::Vec<u8>>>::grow"));
        // What is there is not added again.
        let again = named.with_extension("again");
        symbolize(named, &again);
        assert!(fs::read(named).expect("it") == fs::read(again).expect("it"));
    }
}

#[test]
fn a_symbolized_trace_has_the_names_of_code_made_at_run_time() {
    /// The names that a process has written, until the test ends.
    struct Map(PathBuf);
    impl Drop for Map {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }
    let pid = std::process::id();
    let map = Map(PathBuf::from(format!("/tmp/perf-{pid}.map")));
    fs::write(&map.0, "7000 100 py::load:/home/a/keep.py\n").expect("written");
    let folder = TempDir::new().expect("a folder");
    let [trace, named, again] = ["run", "named", "again"].map(|name| folder.path().join(name));
    // Both are in no module, and the second has no name.
    let base = 0x100_0000_0000;
    let module = Module::new("/no".into(), base, 0, vec![]);
    fs::write(&trace, Trace::of_process(pid, &module, &[0x7011, 0x8001])).expect("written");
    let symbolize = |from: &Path, to: &Path| {
        let (_, out, err) = memledger(&["symbolize".as_ref(), from, "-o".as_ref(), to]);
        assert_eq!(out, "");
        assert!(err.contains("of the 1 address in the trace, 1 is with"), "{err}");
    };
    symbolize(&trace, &named);
    drop(map);
    symbolize(&named, &again);
    assert!(fs::read(&named).expect("it") == fs::read(&again).expect("it"), "added again");
    for (trace, is_named) in [(&trace, false), (&named, true)] {
        let (_, text, err) =
            memledger(&["report".as_ref(), trace, "--by".as_ref(), "stack".as_ref()]);
        assert_eq!(text.contains("keep.load"), is_named, "{text}{err}");
    }
}

/// A reader of the profile finds functions in the file by the address there: with the whole module as the
/// mapping, it takes another address.
#[test]
fn a_profile_maps_the_part_of_the_file_with_code() {
    let program = compile(&["-g"]);
    let (start, size) = program.function("outer");
    let folder = TempDir::new().expect("a folder");
    let [trace, profile] = ["run.utrace", "heap.pb.gz"].map(|name| folder.path().join(name));
    let frames = [program.module.base + start + size / 2];
    fs::write(&trace, Trace::with_stack(&program.module, &frames, "")).expect("written");
    let export = ["export", "--to", "pprof", "-o"].map(Path::new);
    let (status, _, err) = memledger(&[&export[..], &[&profile, &trace]].concat());
    assert_eq!((status, &*err), (0, ""));

    let profile = Profile::decode(&fs::read(&profile).expect("a profile"));
    let [mapping] = &profile.mappings[..] else { panic!("one part of it is code") };
    assert_eq!(Path::new(&mapping.path), program.path);
    let (address, size, in_file) = parsed(&program.path, |file| {
        let segments = file.segments().map(|of| (of.address(), of.size(), of.file_range().0));
        let mut around = segments.filter(|(from, size, _)| (*from..from + size).contains(&start));
        around.next().expect("the segment of the function")
    });
    // In whole pages, as the system maps it.
    let page = |address: u64| address / 4096 * 4096;
    let base = program.module.base;
    let range = [base + page(address), base + page(address + size + 4095), page(in_file)];
    assert_eq!(mapping.range, range);
    assert_ne!(range[2], 0, "the file begins with something else");
}

/// Unreal's writers have had four forms of the event with the frames of a stack.
#[test]
fn stacks_in_each_of_unreals_forms_are_symbolized() {
    let program = compile(&["-g", "-Csymbol-mangling-version=v0"]);
    let call = |function: &str| {
        let (start, size) = program.function(function);
        program.module.base + start + size / 2
    };
    let frames = [call("outer"), call("exported"), call("legacy"), 0x77];
    let folder = TempDir::new().expect("a folder");
    let forms = ["", "XORAndRLE", "Delta7bit", "DeltaVarInt"].map(|form| {
        let [plain, named] =
            ["run", "named"].map(|name| folder.path().join(format!("{name}{form}")));
        fs::write(&plain, Trace::with_stack(&program.module, &frames, form)).expect("written");
        let args = ["symbolize".as_ref(), &*plain, "-o".as_ref(), &*named];
        let (status, _, err) = memledger(&args);
        let expected = "memledger: of the 3 addresses in the trace, 3 are with symbols\n";
        assert_eq!((status, &*err), (0, expected), "{form}");
        (form, named)
    });
    fs::remove_file(&program.path).expect("removed");
    let reports = forms.map(|(form, named)| {
        let (status, text, err) =
            memledger(&["report".as_ref(), &*named, "--by".as_ref(), "stack".as_ref()]);
        assert_eq!((status, &*err), (0, ""), "{form}");
        // A row without branches shows its outermost frame and the innermost two functions.
        let row = "0x76 > … 2 more … > tiny::outer > <tiny::Tree<";
        assert!(text.contains(row), "{form}: {text}");
        (form, text, report(&named))
    });
    for (form, text, report) in &reports {
        assert_eq!(*text, reports[0].1, "{form}");
        let rows = report["by_function"].as_array().expect("rows").iter();
        let names: Vec<_> = rows.map(|row| row["function"].as_str().expect("a name")).collect();
        for function in ["tiny::outer", "exported", "tiny::legacy"] {
            assert!(names.iter().any(|name| name.contains(function)), "{form}: {names:?}");
        }
        let stack = &report["by_stack"][0];
        assert_eq!(stack["frames"].as_array().map(Vec::len), Some(4), "{form}");
        for key in ["totals", "by_stack", "by_function", "frames"] {
            assert_eq!(report[key], reports[0].2[key], "{form}: {key}");
        }
    }
}

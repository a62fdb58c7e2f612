//! What an event type means, by its name: found once, when the type is announced.
//!
//! After that an event costs one look-up in a table and loads at known offsets.

use super::roles::{
    ABSENT, BlockRole, HeapField, LlmRole, MORE_RSS_SUMS, NameRole, PartsFields, RSS_SUMS, Role,
    RssRole, SYSTEM, ScopeRole, StackRole, TimeRole, TraceRole, VIDEO,
};
use crate::callstacks::{BaseField, SpecForm};
use memledger_format::schema::{EventType, FieldType};

const U8: &[FieldType] = &[FieldType::U8];
const U32: &[FieldType] = &[FieldType::U32];
const U64: &[FieldType] = &[FieldType::U64];
/// Unreal 5.0 announces signed integers as unsigned ones.
const I32: &[FieldType] = &[FieldType::I32, FieldType::U32];
const BYTES: &[FieldType] = &[FieldType::U8Array];
const TEXT: &[FieldType] = &[FieldType::AnsiString, FieldType::WideString];

struct Fields<'a>(&'a EventType);

impl Fields<'_> {
    /// The position of the field `name`, which must have one of `types`.
    fn index(&self, name: &str, types: &[FieldType]) -> Result<usize, String> {
        let Some(index) = self.0.field(name) else {
            return Err(format!("{} has no field {name}; its events are ignored", self.0.name()));
        };
        if types.contains(&self.0.fields[index].field_type) {
            Ok(index)
        } else {
            Err(format!(
                "{} has a field {name} of another type than expected ({:?}); its events are ignored",
                self.0.name(),
                self.0.fields[index].field_type
            ))
        }
    }

    /// The offset of the field `name`.
    fn at(&self, name: &str, types: &[FieldType]) -> Result<u16, String> {
        Ok(self.0.fields[self.index(name, types)?].offset)
    }

    /// The heap of an allocation or a free. The first form of these events has none.
    fn heap(&self) -> Result<HeapField, String> {
        match self.0.field("RootHeap") {
            None => Ok(SYSTEM),
            Some(_) => Ok(HeapField { offset: self.at("RootHeap", U8)?, implied: 0 }),
        }
    }

    /// A channel is announced with its name, or turned on or off.
    fn channel(&self, name: Option<usize>) -> Result<Role, String> {
        let (id, enabled) = (self.at("Id", U32)?, self.at("IsEnabled", U8)?);
        Ok(Role::Trace(TraceRole::Channel { id, enabled, name }))
    }
}

/// The role of `event_type`.
///
/// # Errors
/// Why events of a type that is known by name cannot be used.
pub(super) fn role_of(event_type: &EventType) -> Result<Role, String> {
    let fields = Fields(event_type);
    match (event_type.logger.as_ref(), event_type.event.as_ref()) {
        ("Memory", event) => fields.memory(event),
        ("Memledger", event) => fields.memledger(event),
        ("LLM", event) => fields.llm(event),
        // Unreal Engine 4 gives the clock in an event of its own.
        ("$Trace", "NewTrace") if event_type.field("StartCycle").is_none() => Ok(Role::Ignored),
        ("$Trace", "NewTrace" | "Timing") => Ok(Role::Time(TimeRole::NewTrace {
            start: fields.at("StartCycle", U64)?,
            frequency: fields.at("CycleFrequency", U64)?,
        })),
        ("$Trace", "ThreadInfo") => Ok(Role::Name(NameRole::ThreadInfo {
            // Without that field, it is the thread whose stream the event is on.
            thread: match event_type.field("ThreadId") {
                Some(_) => fields.at("ThreadId", U32)?,
                None => ABSENT,
            },
            system: fields.at("SystemId", U32)?,
            name: fields.index("Name", TEXT)?,
        })),
        ("Diagnostics", "Session2") => {
            Ok(Role::Trace(TraceRole::Session { program: fields.index("AppName", TEXT)? }))
        }
        ("Diagnostics", event) => Ok(fields.module(event).unwrap_or(Role::Ignored)),
        // Fields of other writers may differ; then the type is ignored, without an error.
        ("Trace", "ChannelAnnounce") => {
            let name = fields.index("Name", TEXT);
            Ok(name.and_then(|name| fields.channel(Some(name))).unwrap_or(Role::Ignored))
        }
        ("Trace", "ChannelToggle") => Ok(fields.channel(None).unwrap_or(Role::Ignored)),
        // Unreal Engine 4 has the texts of bookmarks in attachments.
        ("Misc", "BookmarkSpec" | "Bookmark")
            if event_type.field("FormatString").or(event_type.field("FormatArgs")).is_none() =>
        {
            Ok(Role::Ignored)
        }
        ("Misc", "BookmarkSpec") => Ok(Role::Time(TimeRole::BookmarkSpec {
            point: fields.at("BookmarkPoint", U64)?,
            format: fields.index("FormatString", TEXT)?,
        })),
        ("Misc", "Bookmark") => Ok(Role::Time(TimeRole::Bookmark {
            cycle: fields.at("Cycle", U64)?,
            point: fields.at("BookmarkPoint", U64)?,
            arguments: fields.index("FormatArgs", BYTES)?,
        })),
        _ => Ok(Role::Ignored),
    }
}

impl Fields<'_> {
    /// The role of the type `Memory.{event}`.
    fn memory(&self, event: &str) -> Result<Role, String> {
        let address = || self.at("Address", U64);
        let heap_or_system = || self.heap().unwrap_or(SYSTEM);
        Ok(match event {
            "Alloc" => self.alloc(self.heap()?, false)?,
            "AllocSystem" => self.alloc(SYSTEM, false)?,
            "AllocVideo" => self.alloc(VIDEO, false)?,
            "ReallocAlloc" => self.alloc(self.heap()?, true)?,
            "ReallocAllocSystem" => self.alloc(SYSTEM, true)?,
            "Free" => self.free(self.heap()?, false)?,
            "FreeSystem" => self.free(SYSTEM, false)?,
            "FreeVideo" => self.free(VIDEO, false)?,
            "ReallocFree" => self.free(self.heap()?, true)?,
            "ReallocFreeSystem" => self.free(SYSTEM, true)?,
            "Marker" => Role::Time(TimeRole::Marker { cycle: self.at("Cycle", U64)? }),
            "MemoryScope" => Role::Scope(ScopeRole::Tag { tag: self.at("Tag", I32)? }),
            "MemoryScopePtr" => {
                let (address, heap) = (self.at("Ptr", U64)?, heap_or_system());
                Role::Scope(ScopeRole::OfBlock { address, heap })
            }
            "UpdateAlloc" => {
                Role::Block(BlockRole::Rename { address: address()?, heap: heap_or_system() })
            }
            "HeapMarkAlloc" => Role::Block(BlockRole::HeapMark { address: address()? }),
            "HeapUnmarkAlloc" => Role::Block(BlockRole::HeapUnmark { address: address()? }),
            "Init" => Role::Trace(TraceRole::Init { shift: self.at("SizeShift", U8)? }),
            // Only the names of heaps are of use; a writer may have none.
            "HeapSpec" => match (self.at("Id", U32), self.index("Name", TEXT)) {
                (Ok(id), Ok(name)) => Role::Name(NameRole::HeapSpec { id, name }),
                _ => Role::Ignored,
            },
            "TagSpec" => Role::Name(NameRole::TagSpec {
                tag: self.at("Tag", I32)?,
                parent: self.at("Parent", I32)?,
                // Our writer also has the field `Display`, which only Unreal's tools read.
                name: self.index("Name", TEXT).or_else(|_| self.index("Display", TEXT))?,
                kinds: self.at("Kind", U8).and_then(|k| Ok((k, self.at("Owner", I32)?))).ok(),
            }),
            // The first form has ids of 64 bits, which no other event refers to by `CallstackId`.
            "CallstackSpec"
                if self.0.field("CallstackId").is_none() && self.0.field("Id").is_some() =>
            {
                Role::Ignored
            }
            "CallstackSpec" => self.spec("Frames", &[FieldType::U64Array], SpecForm::Plain)?,
            "CallstackSpecXORAndRLE" => self.compressed_spec(SpecForm::XorAndRle)?,
            "CallstackSpecDelta7bit" => self.compressed_spec(SpecForm::Delta7bit)?,
            "CallstackSpecDeltaVarInt" => self.compressed_spec(SpecForm::DeltaVarInt)?,
            _ => Role::Ignored,
        })
    }

    /// The role of the type `LLM.{event}`.
    fn llm(&self, event: &str) -> Result<Role, String> {
        let name = match self.0.field("Name") {
            None => None,
            Some(_) => Some(self.index("Name", TEXT)?),
        };
        Ok(match event {
            "TagsSpec" => {
                let is_short = self.at("TagId", U32).is_ok();
                let (pointer, types) = match is_short {
                    true => (BaseField::Short, U32),
                    false => (BaseField::Whole, U64),
                };
                let (tag, parent) = (self.at("TagId", types)?, self.at("ParentId", types)?);
                Role::Llm(LlmRole::Tag { tag, parent, pointer, name })
            }
            "TrackerSpec" => {
                Role::Llm(LlmRole::Tracker { tracker: self.at("TrackerId", U8)?, name })
            }
            "TagValue" => Role::Llm(LlmRole::Values {
                tracker: self.at("TrackerId", U8)?,
                cycle: self.at("Cycle", U64)?,
                tags: self.index("Tags", &[FieldType::U64Array, FieldType::U32Array])?,
                values: self.index("Values", &[FieldType::I64Array, FieldType::U64Array])?,
            }),
            _ => Role::Ignored,
        })
    }

    fn compressed_spec(&self, form: SpecForm) -> Result<Role, String> {
        self.spec("CompressedFrames", BYTES, form)
    }

    fn spec(&self, frames: &str, types: &[FieldType], form: SpecForm) -> Result<Role, String> {
        let (id, frames) = (self.at("CallstackId", U32)?, self.index(frames, types)?);
        Ok(Role::Stack(StackRole::Spec { id, frames, form }))
    }

    /// The role of the type `Diagnostics.{event}`.
    fn module(&self, event: &str) -> Result<Role, String> {
        let base = || {
            let whole = self.at("Base", U64).map(|base| (base, BaseField::Whole));
            whole.or_else(|_| Ok::<_, String>((self.at("Base", U32)?, BaseField::Short)))
        };
        Ok(match event {
            "ModuleInit" => {
                Role::Stack(StackRole::ModuleInit { shift: self.at("ModuleBaseShift", U8).ok() })
            }
            "ModuleLoad" => {
                let (base, field) = base()?;
                Role::Stack(StackRole::ModuleLoad {
                    name: self.index("Name", TEXT)?,
                    base,
                    field,
                    size: self.at("Size", U32)?,
                    build_id: self.index("ImageId", BYTES).ok(),
                    stamp: (self.at("Inode", U64).ok())
                        .and_then(|inode| Some([inode, self.at("ChangeTime", U64).ok()?])),
                })
            }
            "ModuleUnload" => {
                let (base, field) = base()?;
                Role::Stack(StackRole::ModuleUnload { base, field })
            }
            _ => Role::Ignored,
        })
    }

    /// The role of the type `Memledger.{event}`.
    fn memledger(&self, event: &str) -> Result<Role, String> {
        Ok(match event {
            "Trace" => Role::Trace(TraceRole::OurTrace {
                version: self.at("Version", U8)?,
                pid: self.at("Pid", U32)?,
                from_start: self.at("FromProcessStart", U8)?,
                optimized: self.at("Optimized", U8).ok(),
                parent: self.at("ParentPid", U32).ok(),
            }),
            "ThreadStart" => Role::Name(NameRole::ThreadStart {
                id: self.at("Id", U32)?,
                system: self.at("SystemId", U32)?,
                name: self.index("Name", TEXT)?,
            }),
            "Lost" => Role::Trace(TraceRole::Lost { events: self.at("Events", U64)? }),
            "LargeSize" => Role::Block(BlockRole::LargeSize {
                address: self.at("Address", U64)?,
                size: self.at("Size", U64)?,
            }),
            "Mapping" => Role::Block(BlockRole::Mapping {
                address: self.at("Address", U64)?,
                stack: self.at("CallstackId", U32)?,
                size: self.at("Size", U64)?,
                heap: self.heap()?,
                state: self.at("State", U8)?,
            }),
            "ReallocFailed" => {
                Role::Block(BlockRole::ReallocFailed { address: self.at("Address", U64)? })
            }
            "Callstacks" => Role::Stack(StackRole::Relative {
                first: self.at("First", U32)?,
                stacks: self.index("Stacks", BYTES)?,
            }),
            "CallstackEnd" => Role::Stack(StackRole::End {
                id: self.at("CallstackId", U32)?,
                reason: self.at("Reason", U8)?,
            }),
            "CallstackGuess" => Role::Stack(StackRole::Guess {
                id: self.at("CallstackId", U32)?,
                from: self.at("From", U8)?,
            }),
            "StackSampling" => {
                Role::Stack(StackRole::Sampling { mean: self.at("MeanBytes", U64)? })
            }
            "SymbolModule" => Role::Stack(StackRole::SymbolModule {
                id: self.at("Id", U32)?,
                name: self.index("Name", TEXT)?,
                build_id: self.index("ImageId", BYTES)?,
            }),
            "SymbolFunction" => Role::Stack(StackRole::SymbolFunction {
                id: self.at("Id", U32)?,
                function: self.index("Function", TEXT)?,
                file: self.index("File", TEXT)?,
            }),
            "Symbol" => Role::Stack(StackRole::Symbol {
                module: self.at("Module", U32)?,
                offset: self.at("Offset", U64)?,
                functions: self.index("Functions", &[FieldType::U32Array])?,
                lines: self.index("Lines", &[FieldType::U32Array])?,
            }),
            "Alive" => Role::Trace(TraceRole::InitialLiveSet {
                blocks: self.at("Blocks", U64)?,
                missed: self.at("Missed", U64).ok(),
            }),
            "ScopeEntries" => Role::Name(NameRole::ScopeEntries {
                tag: self.at("Tag", I32)?,
                entries: self.at("Entries", U64)?,
                before: self.at("Before", U8)?,
            }),
            "Rss" => Role::Rss(RssRole::Now {
                cycle: self.at("Cycle", U64)?,
                bytes: self.at("Bytes", U64)?,
                most: self.at("MostBytes", U64)?,
                limit: self.at("LimitBytes", U64)?,
                anonymous: self.at("Anonymous", U64).unwrap_or(ABSENT),
                mapped: self.at("MappedBytes", U64).ok(),
            }),
            "ResidentMemory" => {
                let mut sums = [0; RSS_SUMS.len()];
                for (sum, name) in sums.iter_mut().zip(RSS_SUMS) {
                    *sum = self.at(name, U64)?;
                }
                let array = |name: &str| self.index(name, &[FieldType::U64Array]);
                let arrays = |names: [&str; 3]| {
                    let [starts, sizes, resident] = names.map(|name| array(name).ok());
                    Some([starts?, sizes?, resident?])
                };
                // NOTE: earlier traces do not have the most.
                let most_own = self.at("MostOwnBytes", U64).or(self.at("OwnBytes", U64))?;
                Role::Rss(RssRole::Parts(PartsFields {
                    cycle: self.at("Cycle", U64)?,
                    sums,
                    most_own,
                    is_last: self.at("IsLast", U8).ok(),
                    more: MORE_RSS_SUMS.map(|name| self.at(name, U64).unwrap_or(ABSENT)),
                    ranges: [array("Starts")?, array("Sizes")?, array("Resident")?],
                    allocators: self.index("Allocators", &[FieldType::U8Array]).ok(),
                    shared: arrays(["SharedStarts", "SharedSizes", "SharedResident"]),
                    changed: arrays(["ChangedStarts", "ChangedSizes", "ChangedResident"]),
                }))
            }
            "ResidentPages" => Role::Rss(RssRole::Pages {
                cycle: self.at("Cycle", U64)?,
                address: self.at("Address", U64)?,
                page_bytes: self.at("PageBytes", U64)?,
                bits: self.index("Bits", &[FieldType::U8Array])?,
            }),
            "AllocatorStatistics" => Role::Rss(RssRole::Allocator {
                allocator: self.index("Allocator", TEXT)?,
                names: self.index("Names", TEXT)?,
                bytes: self.index("Bytes", &[FieldType::U64Array])?,
            }),
            "Untracked" => Role::Rss(RssRole::Untracked {
                reason: self.at("Reason", U8)?,
                function: self.index("Function", TEXT)?,
                file: self.index("File", TEXT)?,
            }),
            "Report" => Role::Trace(TraceRole::Report {
                cycle: self.at("Cycle", U64)?,
                overhead: self.at("OverheadBytes", U64)?,
                lost: self.at("LostEvents", U64)?,
                misuses: self.at("ScopeMisuses", U64)?,
                in_flight: self.at("InFlight", U64).ok(),
            }),
            _ => Role::Ignored,
        })
    }

    fn alloc(&self, heap: HeapField, realloc: bool) -> Result<Role, String> {
        Ok(Role::Alloc {
            address: self.at("Address", U64)?,
            stack: self.at("CallstackId", U32).unwrap_or(ABSENT),
            size: self.at("Size", U32)?,
            // In the first form, the other bits are the alignment, not its logarithm; neither is
            // used.
            low: self
                .at("Alignment_SizeLower", U8)
                .or_else(|_| self.at("AlignmentPow2_SizeLower", U8))?,
            heap,
            realloc,
        })
    }

    fn free(&self, heap: HeapField, realloc: bool) -> Result<Role, String> {
        Ok(Role::Free { address: self.at("Address", U64)?, heap, realloc })
    }
}

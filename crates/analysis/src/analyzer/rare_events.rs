//! All events but allocations and frees.

use super::Analyzer;
use crate::apply::MappedRange;
use crate::cutoff::Reached;
use crate::decode::{
    ABSENT, BlockRole, LlmRole, NameRole, PartsFields, Role, RssRole, ScopeRole, StackRole,
    TimeRole, TraceRole,
};
use crate::facts::OurTrace;
use crate::live_set::HEAPS;
use crate::observer::BlockObserver;
use crate::read::Event;
use crate::read::event::decode_text;
use crate::read::event::{u8_at, u32_at, u64_at};
use crate::rss::{Ranges, Reading};
use crate::timeline::{FREE_SCOPE_CHANNEL, MEMORY_CHANNEL, SCOPE_CHANNEL};
use crate::untracked::Unjudged;
use memledger_document::internal::FilePages;
use memledger_document::{
    AllocatorStatistics, FileStamp, LlmValue, Module, RssPoint, UntrackedKind, UntrackedReason,
    made,
};
use memledger_format::schema::untracked;

/// The root heap of Rust's allocator, in traces of our own writer.
const RUST: u32 = 0;

impl<O: BlockObserver> Analyzer<O> {
    /// Any event but an allocation or a free.
    #[inline(never)]
    pub(super) fn rare_event(&mut self, role: Role, event: &Event<'_>) {
        self.flush();
        match role {
            Role::Ignored | Role::Alloc { .. } | Role::Free { .. } => {
                if event.enters_scope {
                    self.model.enter_other(event.stream);
                }
            }
            Role::Scope(role) => self.scope_event(role, event),
            Role::Block(role) => self.block_event(role, event),
            Role::Time(role) => self.time_event(role, event),
            Role::Name(role) => self.name_event(role, event),
            Role::Trace(role) => self.trace_event(role, event),
            Role::Stack(role) => self.stack_event(role, event),
            Role::Llm(role) => self.llm_event(role, event),
            Role::Rss(role) => self.rss_event(role, event),
        }
    }

    fn scope_event(&mut self, role: ScopeRole, event: &Event<'_>) {
        let fixed = event.fixed;
        if !event.enters_scope {
            return;
        }
        match role {
            ScopeRole::Tag { tag } => self.model.enter(event.stream, u32_at(fixed, tag) as i32),
            ScopeRole::OfBlock { address, heap } => {
                self.model.enter_of_block(event.stream, heap.of(fixed), u64_at(fixed, address));
            }
        }
        self.scope_changed(event.stream);
    }

    fn block_event(&mut self, role: BlockRole, event: &Event<'_>) {
        let (fixed, stream) = (event.fixed, event.stream);
        let (model, mut env) = self.parts();
        let env = &mut env;
        match role {
            BlockRole::Rename { address, heap } => {
                model.rename(stream, heap.of(fixed), u64_at(fixed, address), env);
            }
            BlockRole::Mapping { address, stack, size, heap, state } => {
                let (address, heap) = (u64_at(fixed, address), heap.of(fixed));
                if heap >= HEAPS {
                    return env.diagnostics.problem(format!(
                        "mappings in root heap {heap} are ignored; there are {HEAPS}"
                    ));
                }
                let addresses = address..address.saturating_add(u64_at(fixed, size));
                let range = MappedRange { stream, heap: heap as u8, addresses };
                model.apply_mapping(range, u8_at(fixed, state), u32_at(fixed, stack), env);
                self.rss.note_mapping(heap);
            }
            BlockRole::HeapMark { address } => model.mark_heap(stream, u64_at(fixed, address), env),
            BlockRole::HeapUnmark { address } => {
                model.unmark_heap(stream, u64_at(fixed, address), env);
            }
            BlockRole::LargeSize { address, size } => {
                model.large_size(stream, u64_at(fixed, address), u64_at(fixed, size), env);
            }
            BlockRole::ReallocFailed { address } => {
                model.realloc_failed(stream, u64_at(fixed, address), env);
            }
        }
    }

    fn time_event(&mut self, role: TimeRole, event: &Event<'_>) {
        let fixed = event.fixed;
        match role {
            TimeRole::NewTrace { start, frequency } => {
                self.timeline.clock_mut().begin(u64_at(fixed, start), u64_at(fixed, frequency));
            }
            TimeRole::Marker { cycle } => self.advance_time(u64_at(fixed, cycle)),
            TimeRole::BookmarkSpec { point, format } => {
                let point = u64_at(fixed, point);
                self.timeline.bookmarks_mut().describe(point, &event.text(format));
            }
            TimeRole::Bookmark { cycle, point, arguments } => {
                let (cycle, point) = (u64_at(fixed, cycle), u64_at(fixed, point));
                self.bookmark(cycle, point, &event.bytes(arguments), event.serial.is_some());
            }
        }
    }

    /// The time of the trace advances to `cycle`.
    fn advance_time(&mut self, cycle: u64) {
        let generation = self.model.accounts().total().generation;
        let next = self.timeline.clock().nanoseconds(cycle);
        if self.cutoff.is_before(next) {
            self.pass(Some(next));
        }
        self.timeline.clock_mut().mark(cycle);
        let now = self.timeline.clock().now();
        if self.cutoff.is_counting() {
            self.timeline.note_peak_before(generation, now);
            if self.timeline.series().wants(now, self.cutoff.events()) {
                self.take_time_point();
            }
        }
        self.facts.note_time(now);
    }

    fn bookmark(&mut self, cycle: u64, point: u64, arguments: &[u8], has_serial: bool) {
        let mut at = self.timeline.clock().nanoseconds(cycle);
        if has_serial {
            // A bookmark with a serial has a position in the order of events: it is no earlier than
            // the events before it, and no later than those after it.
            self.advance_time(cycle);
            at = at.max(self.timeline.clock().now());
        }
        if self.cutoff.is_counting() {
            let number = self.cutoff.events();
            if !self.timeline.bookmarks_mut().set(point, arguments, at, number) {
                self.diagnostics.problem("only the first 10000 bookmarks are shown".into());
            }
            self.observer.bookmark(number);
            let bookmarks = self.timeline.bookmarks();
            self.cutoff.bookmark(|name| bookmarks.event(name) == Some(number));
        }
        self.cutoff.note_time(at);
    }

    fn name_event(&mut self, role: NameRole, event: &Event<'_>) {
        let fixed = event.fixed;
        match role {
            NameRole::ThreadInfo { thread, system, name } => {
                let id = match thread {
                    ABSENT => event.stream.into(),
                    thread => u32_at(fixed, thread),
                };
                let system = u32_at(fixed, system);
                self.model.name_stream(id, system, &event.text(name));
            }
            NameRole::ThreadStart { id, system, name } => {
                let (id, system) = (u32_at(fixed, id), u32_at(fixed, system));
                self.model.start_thread(event.stream, id, system, &event.text(name));
                self.scope_changed(event.stream);
            }
            NameRole::TagSpec { tag, parent, name, kinds } => {
                let (id, parent) = (u32_at(fixed, tag) as i32, u32_at(fixed, parent) as i32);
                let kind_and_owner =
                    kinds.map(|(kind, owner)| (u8_at(fixed, kind), u32_at(fixed, owner) as i32));
                self.model.announce(id, parent, &event.text(name), kind_and_owner);
            }
            NameRole::HeapSpec { id, name } => {
                self.model.contexts_mut().name_heap(u32_at(fixed, id), &event.text(name));
            }
            NameRole::ScopeEntries { tag, entries, before } => {
                let (id, entries) = (u32_at(fixed, tag) as i32, u64_at(fixed, entries));
                self.model.contexts_mut().entered(id, entries, u8_at(fixed, before) != 0);
            }
        }
    }

    fn check_whole(&mut self, is_whole: bool, event: &Event<'_>, what: &str) {
        if !is_whole {
            self.diagnostics.problem(format!(
                "a {} cannot be read whole; the rest of its {what} is missing",
                event.event_type.name()
            ));
        }
    }

    fn stack_event(&mut self, role: StackRole, event: &Event<'_>) {
        let fixed = event.fixed;
        let number = |at| u32_at(fixed, at);
        let stacks = self.model.callstacks_mut();
        match role {
            StackRole::Spec { id, frames, form } => {
                let is_whole = stacks.add_spec(number(id), form, &event.bytes(frames));
                self.check_whole(is_whole, event, "frames");
            }
            StackRole::Relative { first, stacks: list } => {
                let is_whole = stacks.add_all(number(first), &event.bytes(list));
                self.check_whole(is_whole, event, "stacks");
            }
            StackRole::End { id, reason } => stacks.end_spec(number(id), u8_at(fixed, reason)),
            StackRole::Guess { id, from } => stacks.guess_spec(number(id), u8_at(fixed, from)),
            StackRole::Sampling { mean } => {
                self.observer.sampled();
                self.model.accounts_mut().set_sampling(u64_at(fixed, mean));
            }
            StackRole::ModuleInit { shift } => {
                stacks.set_module_shift(shift.map(|shift| u8_at(fixed, shift)));
            }
            StackRole::ModuleLoad { name, base, field, size, build_id, stamp } => {
                if stamp.is_some() {
                    // No other writer has this field.
                    stacks.set_modules_in_order();
                }
                let (path, base) = (event.text(name).into_owned(), field.at(fixed, base));
                let build_id = build_id.map_or(Vec::new(), |id| event.bytes(id).into_owned());
                let mut module = Module::new(path, base, u32_at(fixed, size).into(), build_id);
                let stamp = stamp.map(|[inode, changed]| {
                    let (inode, changed_ns) = (u64_at(fixed, inode), u64_at(fixed, changed));
                    made!(FileStamp { inode, changed_ns })
                });
                module.stamp = stamp.filter(|stamp| *stamp != FileStamp::default());
                stacks.load_module(module, field);
            }
            StackRole::ModuleUnload { base, field } => {
                stacks.unload_module(field.at(fixed, base), field);
            }
            StackRole::SymbolModule { id, name, build_id } => {
                let (name, build_id) = (event.text(name), event.bytes(build_id));
                let (name, build_id) = (name.into_owned(), build_id.into_owned());
                self.symbols.add_module(u32_at(fixed, id), name, build_id);
            }
            StackRole::SymbolFunction { id, function, file } => {
                let [function, file] = [function, file].map(|text| event.text(text).into_owned());
                self.symbols.add_function(u32_at(fixed, id), function, file);
            }
            StackRole::Symbol { module, offset, functions, lines } => {
                let (functions, lines) = (event.bytes(functions), event.bytes(lines));
                let (module, offset) = (u32_at(fixed, module), u64_at(fixed, offset));
                self.symbols.add(module, offset, &functions, &lines);
            }
        }
    }

    fn llm_event(&mut self, role: LlmRole, event: &Event<'_>) {
        let fixed = event.fixed;
        match role {
            LlmRole::Tag { tag, parent, pointer, name } => {
                let (tag, parent) = (pointer.at(fixed, tag), pointer.at(fixed, parent));
                let text = match name {
                    Some(name) => event.text(name),
                    None => decode_text(event.attachment().into(), true),
                };
                self.llm_tags.declare(tag, parent, &text);
            }
            LlmRole::Tracker { tracker, name } => {
                let text = match name {
                    Some(name) => event.text(name),
                    None => decode_text(event.attachment().into(), false),
                };
                self.llm_tags.name_tracker(u8_at(fixed, tracker), &text);
            }
            LlmRole::Values { tracker, cycle, tags, values } => {
                let cycle = u64_at(fixed, cycle);
                // Without a serial, the event has no place in the order.
                if event.serial.is_some() {
                    self.advance_time(cycle);
                }
                if !self.cutoff.is_counting() {
                    return;
                }
                let at_ns = self.timeline.clock().nanoseconds(cycle);
                let size = event.event_type.fields[tags].field_type.element_size();
                let (tags, values) = (event.bytes(tags), event.bytes(values));
                let values = values.as_chunks().0.iter().map(|&value| i64::from_le_bytes(value));
                for (tag, bytes) in tags.chunks_exact(size).zip(values) {
                    let mut id = [0; 8];
                    id[..size].copy_from_slice(tag);
                    let id = u64::from_le_bytes(id);
                    self.llm_tags.set(u8_at(fixed, tracker), id, made!(LlmValue { at_ns, bytes }));
                }
            }
        }
        if self.llm_tags.is_full {
            self.diagnostics
                .problem("only the first 16384 memory tags of the engine are shown".into());
        }
    }

    fn untracked_reason(&mut self, reason: u8, [mut function, file]: [String; 2]) {
        let kind = match reason {
            untracked::MALLOC => UntrackedKind::Malloc,
            untracked::NEW => UntrackedKind::New,
            untracked::ALLOCATOR => UntrackedKind::Allocator,
            untracked::GO => UntrackedKind::Go,
            untracked::SCOPES => UntrackedKind::Scopes,
            untracked::HANDLE => UntrackedKind::Handle,
            untracked::UNREADABLE => UntrackedKind::Unreadable,
            untracked::RECORDED => return self.untracked.note_tables(),
            untracked::REPLACED => {
                let at = self.timeline.clock().nanoseconds(function.parse().unwrap_or(0));
                function = at.to_string();
                UntrackedKind::Replaced
            }
            untracked::STARTED => {
                return self.untracked.add_started(function.parse().unwrap_or(0), file);
            }
            untracked::NOT_FOLLOWED => return self.untracked.add_not_followed(file),
            _ => return,
        };
        self.untracked.add_reason(UntrackedReason::new(kind, function, file));
    }

    fn rss_event(&mut self, role: RssRole, event: &Event<'_>) {
        if !self.cutoff.is_counting() {
            return;
        }
        let fixed = event.fixed;
        match role {
            RssRole::Now { cycle, bytes, most, limit, anonymous, mapped } => {
                self.settle(true);
                let at_ns = self.timeline.clock().nanoseconds(u64_at(fixed, cycle));
                let point = made!(RssPoint { at_ns, bytes: u64_at(fixed, bytes) });
                let most = u64_at(fixed, most);
                self.rss.read(point, most, u64_at(fixed, limit));
                let live = self.model.accounts().total().live_bytes;
                self.rss.note_anonymous(u64_at(fixed, anonymous), live);
                if let Some(mapped) = mapped {
                    let windows = self.model.heaps().windows();
                    self.untracked.look(at_ns, most, u64_at(fixed, mapped), windows);
                }
            }
            RssRole::Parts(fields) => self.resident_memory(fields, event),
            RssRole::Untracked { reason, function, file } => {
                let texts = [function, file].map(|text| event.text(text).into_owned());
                self.untracked_reason(u8_at(fixed, reason), texts);
            }
            RssRole::Pages { cycle, address, page_bytes, bits } => {
                let address = u64_at(fixed, address);
                if let Some(at) = self.model.callstacks().file_at(address) {
                    let pages = FilePages::new(at, u64_at(fixed, page_bytes), &event.bytes(bits));
                    self.rss.note_pages(u64_at(fixed, cycle), pages);
                }
            }
            RssRole::Allocator { allocator, names, bytes } => {
                let (names, bytes) = (event.text(names), event.bytes(bytes));
                let bytes = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
                let figures = names.split(',').map(str::to_owned).zip(bytes).collect();
                let allocator = event.text(allocator).into_owned();
                self.rss.allocator(made!(AllocatorStatistics { allocator, figures }));
            }
        }
    }

    /// What the resident memory is, in a reading.
    fn resident_memory(&mut self, fields: PartsFields, event: &Event<'_>) {
        let fixed = event.fixed;
        self.settle(false);
        let at_ns = self.timeline.clock().nanoseconds(u64_at(fixed, fields.cycle));
        let ranges_of = |arrays: [usize; 3]| {
            let [starts, sizes, resident] = arrays.map(|field| event.bytes(field));
            Ranges::new(&starts, &sizes, &resident)
        };
        let sums = fields.sums.map(|sum| u64_at(fixed, sum));
        let more = fields.more.map(|sum| u64_at(fixed, sum));
        let ranges = ranges_of(fields.ranges);
        let of_allocators = fields.allocators.map(|field| event.bytes(field)).unwrap_or_default();
        let unknown = ranges.without(&of_allocators);
        let mut reading = Reading { at_ns, sums, more, ranges, ..Reading::default() };
        let [shared, changed] =
            [fields.shared, fields.changed].map(|of| of.map(ranges_of).unwrap_or_default());
        reading.note_lazy(&self.model.reserved_in_order(), &changed);
        // NOTE: earlier traces do not say which reading is the last one.
        let is_last = fields.is_last.is_none_or(|is_last| u8_at(fixed, is_last) != 0);
        self.weigh(&reading, [unknown, shared], u64_at(fixed, fields.most_own), is_last);
        let heaps = self.model.heaps();
        self.rss.read_parts(reading, |heap| heaps.sizes(heap..heap + 1));
    }

    /// The blocks that were there at the last reading of resident memory are known now, and, if the last look
    /// `is_before`, those of that.
    fn settle(&mut self, is_before: bool) {
        let windows = self.model.heaps().windows();
        if is_before {
            self.untracked.settle_most(windows);
        }
        let reserved = || self.model.reserved_in_order();
        self.untracked.settle(windows, reserved, !self.facts.has_all_blocks());
    }

    /// How much of the resident memory is in no block. `unknown`: ranges that no allocator has mapped, and
    /// shared ones. `most_own`: the most that the tracker's blocks had.
    fn weigh(&mut self, reading: &Reading, unknown: [Ranges; 2], most_own: u64, is_last: bool) {
        // What was freed before a fork is nowhere in the trace of the child. So at most what memory has risen
        // by counts, without blocks, stacks, static variables and the tracker.
        let at_most = if self.facts.has_all_blocks() {
            u64::MAX
        } else {
            // Blocks in shared memory are not anonymous.
            let [_, shared] = &unknown;
            let windows = self.model.heaps().windows();
            let outside = shared.outside(|start, end| windows.covered(start, end), &[]);
            let live = self.model.accounts().total().live_bytes;
            let live = live.saturating_sub(shared.resident().saturating_sub(outside));
            let Some(risen) = self.rss.risen(live).filter(|_| self.facts.knows_all_blocks()) else {
                return;
            };
            risen.saturating_sub(reading.tracker_bytes()).saturating_sub(reading.more[6])
        };
        self.untracked.weigh(Unjudged {
            at_ns: reading.at_ns,
            rss_bytes: reading.bytes(),
            ranges: reading.ranges.clone(),
            unknown,
            reserved: self.model.reserved_in_order(),
            files: reading.file_bytes(),
            // The tracker's own blocks are in the ranges, and what the allocator keeps of those that were
            // freed: with its gaps, a quarter more than the most that they were has been seen.
            of_tracker: most_own.saturating_add(most_own / 2),
            at_most,
            is_last,
        });
    }

    fn trace_event(&mut self, role: TraceRole, event: &Event<'_>) {
        let fixed = event.fixed;
        match role {
            TraceRole::Session { program } => self.facts.set_program(&event.text(program)),
            TraceRole::Init { shift } => {
                if let Err(problem) = self.decoding.set_size_shift(u8_at(fixed, shift)) {
                    self.diagnostics.problem(problem);
                }
            }
            TraceRole::OurTrace { version, pid, from_start, optimized, parent } => {
                let ours = OurTrace {
                    version: u8_at(fixed, version),
                    pid: u32_at(fixed, pid),
                    from_process_start: u8_at(fixed, from_start) != 0,
                    tracker_optimized: optimized.map(|at| u8_at(fixed, at) != 0),
                    parent_pid: parent.map(|at| u32_at(fixed, at)),
                };
                self.facts.our_trace(ours, &mut self.diagnostics);
                // Our writer announces no name if this is the only heap.
                self.model.contexts_mut().name_heap(RUST, "Rust");
            }
            TraceRole::InitialLiveSet { blocks, missed } => {
                self.timeline.joined();
                let missed = missed.map_or(0, |at| u64_at(fixed, at));
                self.facts.joined(self.timeline.clock().now(), u64_at(fixed, blocks), missed);
                self.observer.joined();
            }
            TraceRole::Channel { id, enabled, name } => {
                let name = name.map(|name| event.text(name));
                self.channel(u32_at(fixed, id), u8_at(fixed, enabled) != 0, name.as_deref());
            }
            TraceRole::Lost { events } => self.diagnostics.lost(u64_at(fixed, events)),
            TraceRole::Report { cycle, overhead, lost, misuses, in_flight } => {
                let (lost, misuses) = (u64_at(fixed, lost), u64_at(fixed, misuses));
                if self.diagnostics.set_reported(lost, misuses) && self.cutoff.is_counting() {
                    self.facts.set_overhead_bytes(u64_at(fixed, overhead));
                    self.cutoff.after_mut().in_flight = in_flight.map_or(0, |at| u64_at(fixed, at));
                    let at_ns = self.timeline.clock().nanoseconds(u64_at(fixed, cycle));
                    let at_ns = at_ns.max(self.timeline.clock().now());
                    self.stop_counting(Reached { event: self.cutoff.events(), at_ns }, None);
                }
            }
        }
    }

    /// A channel is announced with its name, or turned on or off.
    fn channel(&mut self, id: u32, is_on: bool, name: Option<&str>) {
        match name {
            Some(SCOPE_CHANNEL) => self.timeline.scope_channel(id, is_on),
            Some(MEMORY_CHANNEL) => self.facts.set_memory_recorded(is_on),
            Some(FREE_SCOPE_CHANNEL) => self.facts.set_free_scopes(is_on),
            None if self.cutoff.is_counting() => self.timeline.channel_toggled(id, is_on),
            _ => {}
        }
        self.model.set_free_scopes(self.facts.free_scopes() && self.timeline.scopes_are_on());
    }
}

//! What the screen shows, without the screen: figures over time, the mark, sort, filter and tree.

use super::history::{History, Point};
use super::lines::{self, Line, Question};
use super::sample::Sample;
use crate::commands::by::By;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The key by which rows are sorted, the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// Bytes live now
    #[default]
    Live,
    /// The row's own peak
    Peak,
    /// All bytes ever allocated
    Allocated,
    /// Allocations
    Count,
    /// Bytes allocated per second since the last refresh
    Rate,
    /// Growth of live bytes since the mark
    Change,
}

impl Sort {
    pub const ALL: [Self; 6] =
        [Self::Live, Self::Peak, Self::Allocated, Self::Count, Self::Rate, Self::Change];
}

/// Where the figures come from, and whether more follow.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// No figures so far.
    Waiting,
    /// More figures follow.
    Live,
    /// No figures for now; the sentence says why. They may come again.
    Interrupted(String),
    /// No more figures.
    Ended(String),
}

/// What a user does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    Interrupt,
    Show(By),
    NextView,
    PreviousView,
    SortBy(Sort),
    NextSort,
    Reverse,
    Inclusive,
    Mark,
    Unmark,
    Pause,
    Help,
    /// Begins to type a filter.
    Filter,
    Type(char),
    Erase,
    /// Keeps what was typed.
    Accept,
    /// Ends what is open: the help, the filter.
    Cancel,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Expand,
    Collapse,
    ExpandAll,
    CollapseAll,
}

/// What the program has to do after an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    Continue,
    Quit,
    /// Ctrl-C.
    Interrupt,
}

/// A sample, and its time on the clock of the screen.
#[derive(Clone, Debug)]
pub struct TimedSample {
    pub sample: Arc<Sample>,
    pub at_ns: u64,
}

/// The state of the screen.
#[derive(Debug)]
pub struct Model {
    pub title: String,
    pub by: By,
    /// Whether the list was chosen: by an option, a key, or by the first figures.
    is_chosen: bool,
    pub sort: Sort,
    pub reverse: bool,
    /// Whether rows are shown the other way than they are at first: own figures, or with all that is inside.
    is_switched: bool,
    pub filter: String,
    /// Whether the filter is being typed; then, what it was before.
    pub typing: Option<String>,
    pub help: bool,
    pub paused: bool,
    pub status: Status,
    /// A sentence about what is not as it should be.
    pub problem: Option<String>,
    pub history: History,
    now: Option<TimedSample>,
    before: Option<TimedSample>,
    /// The last two moments, if they are not shown because of a pause.
    latest: Option<(Option<TimedSample>, TimedSample)>,
    mark: Option<TimedSample>,
    collapsed: HashMap<By, HashSet<Vec<String>>>,
    pub list: List,
}

/// The rows, in their order, the selected one, and which are seen.
#[derive(Debug, Default)]
pub struct List {
    pub lines: Vec<Line>,
    /// The path of the selected row; `None`: the first row.
    selected: Option<Vec<String>>,
    offset: usize,
    /// Rows that the last screen had room for.
    page: usize,
}

impl List {
    /// The place of the selected row.
    pub fn cursor(&self) -> usize {
        let path = self.selected.as_ref();
        path.and_then(|path| self.lines.iter().position(|line| line.path == *path)).unwrap_or(0)
    }

    /// The first row to show where there is room for `page` of them, so that the selected one is seen.
    pub fn scroll(&mut self, page: usize) -> usize {
        self.page = page.max(1);
        let cursor = self.cursor();
        let last = self.lines.len().saturating_sub(self.page);
        self.offset = self.offset.clamp((cursor + 1).saturating_sub(self.page), cursor).min(last);
        self.offset
    }

    fn select(&mut self, at: usize) {
        let at = at.min(self.lines.len().saturating_sub(1));
        self.selected = self.lines.get(at).map(|line| line.path.clone());
    }
}

impl Model {
    /// Without a list, the first figures decide: functions if there are any and no scopes and tags, else
    /// scopes.
    pub fn new(title: String, by: Option<By>, sort: Sort) -> Self {
        Self {
            title,
            by: by.unwrap_or(By::Scope),
            is_chosen: by.is_some(),
            sort,
            reverse: false,
            is_switched: false,
            filter: String::new(),
            typing: None,
            help: false,
            paused: false,
            status: Status::Waiting,
            problem: None,
            history: History::default(),
            now: None,
            before: None,
            latest: None,
            mark: None,
            collapsed: HashMap::new(),
            list: List { page: 10, ..List::default() },
        }
    }

    /// Takes in the figures of a moment, `elapsed_ns` after the ones before if they are of now; of the end of
    /// a trace, its own time counts.
    pub fn add(&mut self, sample: Sample, elapsed_ns: Option<u64>) {
        let last = self.newest();
        let is_other = last.is_some_and(|last| last.sample.pid != sample.pid);
        if is_other {
            self.restart(&sample);
        }
        let last = self.newest().cloned();
        // NOTE: the clock of an idle program may not advance in its trace.
        let at_ns = match (&last, elapsed_ns) {
            (Some(last), Some(elapsed)) => {
                sample.duration_ns.max(last.at_ns.saturating_add(elapsed))
            }
            (Some(last), None) => sample.duration_ns.max(last.at_ns),
            (None, _) => sample.duration_ns,
        };
        self.history.add(Point { at_ns, live: sample.total.live });
        if sample.has_functions {
            self.take_functions(&sample);
        }
        let moment = TimedSample { sample: Arc::new(sample), at_ns };
        if self.paused && self.now.is_some() {
            self.latest = Some((last, moment));
        } else {
            (self.before, self.now) = (last, Some(moment));
            self.refresh();
        }
    }

    /// Uses figures that have functions, for what they were asked for.
    fn take_functions(&mut self, sample: &Sample) {
        if !std::mem::replace(&mut self.is_chosen, true) && sample.is_of_functions_only() {
            self.by = By::Function;
        }
        // A mark without functions has those of the next figures.
        if let Some(mark) = self.mark.as_mut().filter(|mark| !mark.sample.has_functions) {
            Arc::make_mut(&mut mark.sample).take_functions(sample);
        }
    }

    /// Figures of another process follow at the same place.
    fn restart(&mut self, sample: &Sample) {
        let new = sample.pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        self.problem =
            Some(format!("{new} has replaced the program; the figures are those of {new}"));
        self.history = History::default();
        (self.now, self.before, self.latest, self.mark) = (None, None, None, None);
        self.paused = false;
    }

    fn newest(&self) -> Option<&TimedSample> {
        self.latest.as_ref().map(|(_, latest)| latest).or(self.now.as_ref())
    }

    /// The moment that is shown.
    pub fn now(&self) -> Option<&TimedSample> {
        self.now.as_ref()
    }

    /// The one before it.
    pub fn before(&self) -> Option<&TimedSample> {
        self.before.as_ref()
    }

    pub fn mark(&self) -> Option<&TimedSample> {
        self.mark.as_ref()
    }

    /// Whether call stacks are needed for what is shown.
    pub fn wants_functions(&self) -> bool {
        let mark_lacks_them = self.mark.as_ref().is_some_and(|mark| !mark.sample.has_functions);
        self.by == By::Function || !self.is_chosen || mark_lacks_them
    }

    /// Whether rows are shown with all that is inside them.
    pub fn is_inclusive(&self) -> bool {
        self.by.begins_inclusive() != self.is_switched
    }

    /// Does what the user asks for.
    pub fn act(&mut self, action: Action) -> NextStep {
        match action {
            Action::Quit => return NextStep::Quit,
            Action::Interrupt => return NextStep::Interrupt,
            Action::Help => self.help = !self.help,
            Action::Cancel if self.help => self.help = false,
            Action::Cancel => {
                self.filter = self.typing.take().unwrap_or_default();
            }
            Action::Filter => {
                self.help = false;
                self.typing = Some(self.filter.clone());
            }
            Action::Type(char) => self.filter.push(char),
            Action::Erase => drop(self.filter.pop()),
            Action::Accept => self.typing = None,
            Action::Show(by) => self.show(by),
            Action::NextView => self.show(step(&By::ALL, self.by, 1)),
            Action::PreviousView => self.show(step(&By::ALL, self.by, By::ALL.len() - 1)),
            Action::SortBy(sort) => (self.sort, self.reverse) = (sort, false),
            Action::NextSort => {
                (self.sort, self.reverse) = (step(&Sort::ALL, self.sort, 1), false);
                if self.sort == Sort::Change && self.mark.is_none() {
                    self.sort = step(&Sort::ALL, self.sort, 1);
                }
            }
            Action::Reverse => self.reverse = !self.reverse,
            Action::Inclusive => self.is_switched = !self.is_switched,
            Action::Mark => self.mark = self.now.clone(),
            Action::Unmark => {
                self.mark = None;
                if self.sort == Sort::Change {
                    self.sort = Sort::default();
                }
            }
            Action::Pause => {
                self.paused = !self.paused;
                if let Some((before, latest)) = self.latest.take().filter(|_| !self.paused) {
                    (self.before, self.now) = (before, Some(latest));
                }
            }
            Action::Up => self.list.select(self.list.cursor().saturating_sub(1)),
            Action::Down => self.list.select(self.list.cursor() + 1),
            Action::PageUp => self.list.select(self.list.cursor().saturating_sub(self.list.page)),
            Action::PageDown => self.list.select(self.list.cursor() + self.list.page),
            Action::First => self.list.selected = None,
            Action::Last => self.list.select(self.list.lines.len()),
            Action::Expand => self.expand(),
            Action::Collapse => self.collapse(),
            Action::ExpandAll => drop(self.collapsed.remove(&self.by)),
            Action::CollapseAll => {
                let paths = self.list.lines.iter().filter(|line| line.is_expanded == Some(true));
                let paths: Vec<_> = paths.map(|line| line.path.clone()).collect();
                self.collapsed.entry(self.by).or_default().extend(paths);
            }
        }
        self.refresh();
        NextStep::Continue
    }

    fn show(&mut self, by: By) {
        self.is_chosen = true;
        if self.by != by {
            self.by = by;
            (self.list.selected, self.list.offset) = (None, 0);
        }
        if self.sort == Sort::Peak && !by.has_peak() {
            self.sort = Sort::Live;
        }
    }

    fn expand(&mut self) {
        let Some(line) = self.list.lines.get(self.list.cursor()) else { return };
        match line.is_expanded {
            Some(false) => {
                let path = line.path.clone();
                self.collapsed.entry(self.by).or_default().remove(&path);
                self.list.selected = Some(path);
            }
            // As in other trees: into the row that is open.
            Some(true) => self.list.select(self.list.cursor() + 1),
            None => {}
        }
    }

    /// Closes the row, or goes to the one around it.
    fn collapse(&mut self) {
        let cursor = self.list.cursor();
        let Some(line) = self.list.lines.get(cursor) else { return };
        if line.is_expanded == Some(true) && self.filter.is_empty() {
            let path = line.path.clone();
            self.collapsed.entry(self.by).or_default().insert(path.clone());
            self.list.selected = Some(path);
        } else if let Some(outer) =
            (0..cursor).rev().find(|&at| self.list.lines[at].level < line.level)
        {
            self.list.select(outer);
        }
    }

    /// Makes the rows again.
    fn refresh(&mut self) {
        let Some(now) = &self.now else { return };
        let none = HashSet::new();
        self.list.lines = lines::lines(&Question {
            by: self.by,
            sort: self.sort,
            reverse: self.reverse,
            inclusive: self.is_inclusive() || !self.by.has_inclusive(),
            filter: &self.filter,
            collapsed: self.collapsed.get(&self.by).unwrap_or(&none),
            now,
            before: self.before.as_ref(),
            mark: self.mark.as_ref(),
        });
    }
}

fn step<T: Copy + PartialEq>(all: &[T], from: T, by: usize) -> T {
    let at = all.iter().position(|one| *one == from).unwrap_or(0);
    all[(at + by) % all.len()]
}

#[cfg(test)]
pub mod tests;

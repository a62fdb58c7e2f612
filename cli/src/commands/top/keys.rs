//! What each key does.

use super::model::{Action, Sort};
use crate::commands::by::By;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The action of a key; `is_typing` a filter. `None` if it has none.
pub fn action(key: &KeyEvent, is_typing: bool) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Action::Interrupt),
            KeyCode::Char('u' | 'b') if !is_typing => Some(Action::PageUp),
            KeyCode::Char('d' | 'f') if !is_typing => Some(Action::PageDown),
            KeyCode::Char('h') if is_typing => Some(Action::Erase),
            _ => None,
        };
    }
    let moves = match key.code {
        KeyCode::Up => Some(Action::Up),
        KeyCode::Down => Some(Action::Down),
        KeyCode::PageUp => Some(Action::PageUp),
        KeyCode::PageDown => Some(Action::PageDown),
        KeyCode::Esc => Some(Action::Cancel),
        _ => None,
    };
    if moves.is_some() {
        return moves;
    }
    if is_typing {
        return match key.code {
            KeyCode::Char(char) => Some(Action::Type(char)),
            KeyCode::Backspace => Some(Action::Erase),
            KeyCode::Enter => Some(Action::Accept),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Home | KeyCode::Char('g') => Action::First,
        KeyCode::End | KeyCode::Char('G') => Action::Last,
        KeyCode::Right | KeyCode::Enter => Action::Expand,
        KeyCode::Left => Action::Collapse,
        KeyCode::Tab => Action::NextView,
        KeyCode::BackTab => Action::PreviousView,
        KeyCode::Char(char) => return of_char(char),
        _ => return None,
    })
}

fn of_char(char: char) -> Option<Action> {
    Some(match char {
        'q' => Action::Quit,
        '?' | 'h' => Action::Help,
        '1' => Action::Show(By::Scope),
        '2' => Action::Show(By::Group),
        '3' => Action::Show(By::Name),
        '4' => Action::Show(By::Function),
        '5' => Action::Show(By::Thread),
        '6' => Action::Show(By::Heap),
        'l' => Action::SortBy(Sort::Live),
        'p' => Action::SortBy(Sort::Peak),
        'a' => Action::SortBy(Sort::Allocated),
        'c' => Action::SortBy(Sort::Count),
        'r' => Action::SortBy(Sort::Rate),
        'd' => Action::SortBy(Sort::Change),
        's' => Action::NextSort,
        'S' => Action::Reverse,
        'i' => Action::Inclusive,
        'm' => Action::Mark,
        'u' => Action::Unmark,
        ' ' => Action::Pause,
        '/' => Action::Filter,
        'k' => Action::Up,
        'j' => Action::Down,
        '+' | '=' => Action::ExpandAll,
        '-' => Action::CollapseAll,
        _ => return None,
    })
}

/// The keys in the help: what to press, and what it does.
pub const HELP: &[(&str, &str)] = &[
    ("1 2 3 4 5 6, Tab", "by scope, group, name, function, thread, heap"),
    ("l p a c r d", "sort: live, peak, allocated, count, rate, change"),
    ("s, S", "the next of these; the smallest first"),
    ("i", "own only, or with all inside it or called by it"),
    ("/", "filter by a text; Enter keeps it, Esc ends it"),
    ("m, u", "mark: what has changed since then; unmark"),
    ("Space", "pause; continue with the latest figures"),
    ("Up Down PgUp PgDn Home End", "select a row"),
    ("Right Left", "open and close a row"),
    ("+ -", "open and close all rows"),
    ("?", "this help"),
    ("q", "quit; the program continues"),
];

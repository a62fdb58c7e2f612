//! Screens as text, compared with `goldens/*.txt`. `MEMLEDGER_BLESS=1 cargo test -p memledger-cli top::`
//! writes these anew.

use super::*;
use crate::commands::top::model::tests::sample;
use crate::commands::top::model::{Action, Sort};
use crate::commands::top::once::text;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::path::Path;

const SECOND: u64 = 1_000_000_000;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn model() -> Model {
    let mut model = Model::new("1985".into(), Some(By::Scope), Sort::Live);
    for second in 1..=40_u64 {
        model.status = Status::Live;
        let cache = second * 300 * KIB;
        let picture = (second % 7) * MIB;
        let allocated = second * 40 * MIB;
        model.add(
            sample(
                4242,
                second,
                &[
                    ("GlobalScope", 544, 544),
                    ("GlobalScope>request", 0, 0),
                    ("GlobalScope>request>parse", 0, allocated / 4),
                    ("GlobalScope>request>load picture", picture, allocated),
                    (
                        "GlobalScope>request>remember session, which has a name that is too long",
                        cache,
                        cache,
                    ),
                    ("GlobalScope>日本語の名前", 20 * KIB, 20 * KIB),
                    ("GlobalScope>\u{1b}[31m\u{202e}evil\n", 3, 3),
                ],
            ),
            Some(SECOND),
        );
        if second == 20 {
            model.act(Action::Mark);
        }
    }
    model
}

/// The screen, and the colours of a cell.
fn drawn(model: &mut Model, theme: Theme, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(model, theme, frame)).unwrap();
    terminal.backend().buffer().clone()
}

#[track_caller]
fn assert_golden(name: &str, model: &mut Model, width: u16, height: u16) {
    let screen = text(&drawn(model, Theme::Plain, width, height)).join("\n") + "\n";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/top/draw/goldens");
    let path = folder.join(format!("{name}.txt"));
    if std::env::var_os("MEMLEDGER_BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        return std::fs::write(path, screen).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(screen == golden, "{name} is now\n{screen}");
    let longest = screen.lines().map(|line| Span::raw(line).width()).max();
    assert!(longest <= Some(width.into()));
}

#[test]
fn screens_are_as_they_were() {
    let mut marked = model();
    assert_golden("80x24-mark", &mut marked, 80, 24);
    assert_golden("160x40-mark", &mut marked, 160, 40);
    marked.act(Action::Unmark);
    assert_golden("80x24", &mut marked, 80, 24);
    assert_golden("60x14", &mut marked, 60, 14);
    assert_golden("40x10", &mut marked, 40, 10);
    marked.act(Action::Help);
    assert_golden("80x24-help", &mut marked, 80, 24);
}

#[test]
fn screens_say_what_is_not_as_it_should_be() {
    let mut model = model();
    model.act(Action::Unmark);
    model.status = Status::Ended("the program has ended with status 3".into());
    model.problem = Some("no \u{1b}[2J symbols".into());
    assert_golden("80x24-ended", &mut model, 80, 24);
    model.status = Status::Live;
    model.problem = None;
    model.act(Action::Filter);
    "日本\u{202e}".chars().for_each(|char| _ = model.act(Action::Type(char)));
    assert_golden("80x24-filter", &mut model, 80, 24);
    model.act(Action::Erase);
    model.act(Action::Accept);
    model.act(Action::Pause);
    assert_golden("80x24-paused", &mut model, 80, 24);
    let mut empty = Model::new("./server".into(), Some(By::Group), Sort::Live);
    assert_golden("80x24-waiting", &mut empty, 80, 24);
}

#[test]
fn times_below_the_bars_are_whole_or_left_out_beside_the_mark() {
    for marked in 1..=9_u64 {
        let mut model = Model::new("1985".into(), Some(By::Scope), Sort::Live);
        for second in 1..=9 {
            model.add(
                sample(1, second, &[("GlobalScope", second * MIB, second * MIB)]),
                Some(SECOND),
            );
            if second == marked {
                model.act(Action::Mark);
            }
        }
        let shown = text(&drawn(&mut model, Theme::Plain, 80, 24));
        let line = shown.iter().find(|line| line.contains('▲')).expect("a mark");
        let times = line.replace("▲ mark", "|").replace("mark ▲", "|");
        let times: Vec<_> =
            times.split('|').map(str::trim).filter(|time| !time.is_empty()).collect();
        assert!(times.iter().all(|time| ["1.00 s", "9.00 s"].contains(time)), "{line}");
    }
}

#[test]
fn no_size_of_a_terminal_is_a_panic() {
    let mut model = model();
    for width in [0, 1, 2, 10, 39, 40, 41, 57, 80, 200, 500] {
        for height in [0, 1, 2, 3, 9, 10, 11, 17, 18, 24, 34, 60] {
            for is_help in [false, true] {
                model.help = is_help;
                let area = Rect::new(0, 0, width, height);
                screen(&mut model, Theme::Full, area, &mut Buffer::empty(area));
            }
        }
    }
    let small = text(&drawn(&mut model, Theme::Plain, 30, 6)).join(" ");
    assert!(small.contains("needs 40 x 10") && small.contains("has 30 x 6"), "{small}");
}

/// The styles of a text on the screen.
fn style_of(buffer: &Buffer, what: &str) -> Style {
    for (y, line) in text(buffer).iter().enumerate() {
        if let Some(at) = line.find(what) {
            let x = Span::raw(&line[..at]).width();
            return buffer[(x as u16, y as u16)].style();
        }
    }
    panic!("{what} is not on the screen:\n{}", text(buffer).join("\n"));
}

#[test]
fn colours_mean_one_thing_and_none_are_used_where_none_are_wanted() {
    let mut model = model();
    let buffer = drawn(&mut model, Theme::Full, 160, 40);
    let colour = |what| style_of(&buffer, what).fg;
    let meaning = |meaning| Theme::Full.style(meaning).fg;
    // NOTE: the row of the cursor is reversed, and has its colours, too.
    assert_eq!(colour("+5.9 MiB"), meaning(Meaning::Grew));
    assert_eq!(colour("-1.0 MiB"), meaning(Meaning::Shrank));
    let mut colours: Vec<_> =
        [Meaning::Live, Meaning::Peak, Meaning::Allocated, Meaning::Grew, Meaning::Shrank]
            .map(|one| format!("{:?}", meaning(one)))
            .into();
    colours.dedup();
    assert_eq!(colours.len(), 5);
    let plain = drawn(&mut model, Theme::Plain, 160, 40);
    let has_colour = |cell: &ratatui::buffer::Cell| cell.fg != ratatui::style::Color::Reset;
    assert!(!plain.content.iter().any(has_colour));
    assert!(buffer.content.iter().any(has_colour));
}

#[test]
fn the_selected_row_is_of_one_colour() {
    let mut model = model();
    for theme in [Theme::Basic, Theme::Full, Theme::Plain] {
        let buffer = drawn(&mut model, theme, 160, 40);
        let is_selected = |y: &u16| buffer[(80, *y)].modifier.contains(Modifier::REVERSED);
        let y = (0..40).find(is_selected).expect("a selected row");
        let styles = (0..160).map(|x| (buffer[(x, y)].fg, buffer[(x, y)].bg));
        assert!(styles.clone().all(|style| Some(style) == styles.clone().next()));
        assert!((0..160).all(|x| !buffer[(x, y)].modifier.contains(Modifier::DIM)), "{theme:?}");
    }
}

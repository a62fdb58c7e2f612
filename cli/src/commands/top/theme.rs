//! The colours: one for each meaning, from Okabe's and Ito's palette, which people with any colour vision can
//! tell apart.

use ratatui::style::{Color, Modifier, Style};

/// What a text or a bar is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meaning {
    #[default]
    Plain,
    Live,
    Peak,
    Allocated,
    Grew,
    Shrank,
    /// Of less importance.
    Faint,
    /// Something is not as it should be.
    Problem,
}

/// Which colours the terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Bold, faint and reversed text only.
    Plain,
    /// The 16 colours that each terminal has.
    Basic,
    /// 256 colours.
    Full,
}

impl Theme {
    /// From the environment: `NO_COLOR`, `COLORTERM` and `TERM`.
    pub fn from_environment() -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        if !variable("NO_COLOR").is_empty() {
            return Self::Plain;
        }
        let terminal = variable("TERM");
        match terminal.as_str() {
            "dumb" => Self::Plain,
            _ if !variable("COLORTERM").is_empty() || terminal.contains("256") => Self::Full,
            _ => Self::Basic,
        }
    }

    pub fn style(self, meaning: Meaning) -> Style {
        let style = Style::new();
        let style = match meaning {
            Meaning::Faint => return style.add_modifier(Modifier::DIM),
            Meaning::Problem => style.add_modifier(Modifier::BOLD),
            _ => style,
        };
        let (basic, full) = match meaning {
            Meaning::Plain | Meaning::Faint => return style,
            // Dark blue on black, as terminals have it, can hardly be read.
            Meaning::Live => (Color::LightBlue, 75),
            Meaning::Peak => (Color::Yellow, 214),
            Meaning::Allocated => (Color::Green, 108),
            Meaning::Grew | Meaning::Problem => (Color::Red, 202),
            Meaning::Shrank => (Color::Cyan, 36),
        };
        match self {
            Self::Plain => style,
            Self::Basic => style.fg(basic),
            Self::Full => style.fg(Color::Indexed(full)),
        }
    }

    pub fn bold(self, meaning: Meaning) -> Style {
        self.style(meaning).add_modifier(Modifier::BOLD)
    }
}

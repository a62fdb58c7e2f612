//! The grammar of conditions, and the checks that need no trace.

use super::figures::{Selector, known_figures};
use super::{Change, Comparison, Condition, PERCENT};
use crate::commands::by::By;
use crate::quantity::{BYTE_UNITS, NS_UNITS, scaled};
use memledger_analysis::Unit;
use memledger_export::text;
use std::str::FromStr;
use winnow::Parser;
use winnow::ascii::multispace0;
use winnow::combinator::{alt, delimited, opt, preceded, repeat, separated, separated_pair};
use winnow::error::{ContextError, ParseError, StrContext, StrContextValue};
use winnow::token::{any, none_of, rest, take_while};

/// The figures that most conditions are about: an error names them first.
const COMMON: [&str; 6] =
    ["peak_bytes", "live_bytes", "live_blocks", "allocations", "allocated_bytes", "complete"];

/// A parsed condition whose figure and value are not checked yet.
type Unchecked<'a> = (&'a str, Vec<(By, String)>, Option<Change>, Comparison, &'a str);

fn token<'a, O>(
    inner: impl Parser<&'a str, O, ContextError>,
) -> impl Parser<&'a str, O, ContextError> {
    delimited(multispace0, inner, multispace0)
}

fn expected(what: &'static str) -> StrContext {
    StrContext::Expected(StrContextValue::Description(what))
}

fn quoted<'a>(quote: char) -> impl Parser<&'a str, String, ContextError> {
    let char = alt((preceded('\\', any), none_of([quote, '\\'])));
    delimited(quote, repeat(0.., char), quote)
}

fn selector(input: &mut &str) -> Result<(By, String), ContextError> {
    let by = alt(By::ALL.map(|by| by.name().value(by)));
    let text = alt((quoted('"'), quoted('\'')));
    separated_pair(
        token(by).context(expected("scope, group, name, thread, function or heap")),
        '='.context(expected("=")),
        token(text).context(expected("a text between quotes")),
    )
    .parse_next(input)
}

fn condition<'a>(input: &mut &'a str) -> Result<Unchecked<'a>, ContextError> {
    let key = take_while(1.., |c: char| c.is_ascii_alphanumeric() || c == '_');
    let comparison = alt((
        ">=".value(Comparison::GreaterOrEqual),
        "<=".value(Comparison::LessOrEqual),
        alt(("==", "=")).value(Comparison::Equal),
        "!=".value(Comparison::NotEqual),
        ">".value(Comparison::Greater),
        "<".value(Comparison::Less),
    ));
    let key = token(key).context(expected("a figure")).parse_next(input)?;
    let selectors = if input.starts_with('{') {
        let end = '}'.context(expected("}"));
        delimited('{', separated(1.., selector, ','), end).parse_next(input)?
    } else {
        Vec::new()
    };
    let mut change = opt(token(alt(("grew".value(Change::Grew), "shrank".value(Change::Shrank)))));
    let change = change.parse_next(input)?;
    let comparison = token(comparison).context(expected("a comparison")).parse_next(input)?;
    Ok((key, selectors, change, comparison, rest.parse_next(input)?))
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, selectors, change, comparison, value) =
            condition.parse(text).map_err(|error| misplaced(&error))?;
        let selector = match <[_; 2]>::try_from(selectors) {
            Ok([(By::Group, group), (By::Name, name)])
            | Ok([(By::Name, name), (By::Group, group)]) => {
                Some(Selector { of: By::Name, name, group: Some(group) })
            }
            Err(one) if one.len() < 2 => {
                one.into_iter().next().map(|(of, name)| Selector { of, name, group: None })
            }
            _ => return Err("only name and group can be combined".to_owned()),
        };
        let known = known_figures(selector.as_ref().map(|selector| selector.of));
        let Some(&(_, unit)) = known.iter().find(|(known, _)| *known == key) else {
            // NOTE: a stable sort, by what most conditions are about.
            let mut keys: Vec<_> = known.into_iter().map(|(key, _)| key).collect();
            keys.sort_by_key(|key| {
                COMMON.iter().position(|one| one == key).unwrap_or(COMMON.len())
            });
            let instead = text::instead(key, keys);
            return Err(format!("there is no figure '{key}'; {instead}"));
        };
        if let Some(change) = change {
            if unit == Unit::Flag {
                return Err(format!("{key} is true or false, and neither grows nor shrinks"));
            }
            if !matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual) {
                let change = change.name();
                return Err(format!("write it like '{key} {change} > 5%'"));
            }
        }
        let percent = change.and_then(|_| scaled(value.trim(), &[("%", PERCENT)]));
        let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        let value = match (unit, value.trim()) {
            (Unit::Flag, value @ ("true" | "false")) if is_equality => u64::from(value == "true"),
            (Unit::Flag, _) => return Err(format!("write it like '{key} = false'")),
            (_, _) if let Some(percent) = percent => percent,
            (_, value) => number(unit, value)?,
        };
        let (key, source) = (key.to_owned(), text.trim().to_owned());
        let is_percent = percent.is_some();
        Ok(Self { key, unit, selector, change, comparison, value, is_percent, source })
    }
}

/// What is expected where the text is no condition.
fn misplaced(error: &ParseError<&str, ContextError>) -> String {
    let what = error.inner().context().find_map(|context| match context {
        StrContext::Expected(what) => Some(what.to_string()),
        _ => None,
    });
    let rest = match error.input().get(error.offset()..).unwrap_or_default() {
        "" => "at the end".to_owned(),
        rest => format!("before '{rest}'"),
    };
    format!(
        "{} is expected {rest}; write it like 'peak_bytes > 64MiB' or \
         'peak_bytes{{scope=\"request\"}} > 1MiB'",
        what.as_deref().unwrap_or("something else")
    )
}

/// The number on the right side of a condition on a figure of this unit.
fn number(unit: Unit, value: &str) -> Result<u64, String> {
    let units = match unit {
        Unit::Nanoseconds => NS_UNITS,
        Unit::Bytes => BYTE_UNITS,
        _ => &[("", 1)],
    };
    scaled(value, units).ok_or_else(|| {
        let units: Vec<_> = units.iter().map(|u| u.0).filter(|unit| !unit.is_empty()).collect();
        if units.is_empty() {
            format!("'{value}' is not a number")
        } else {
            format!("'{value}' is not a number, with or without one of {}", units.join(", "))
        }
    })
}

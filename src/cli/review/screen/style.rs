//! Colours: those of everything that is printed, where colours are wanted.

use ratatui::style::{Color, Modifier, Style as Look};

use super::super::super::output::Style;

/// Whether there are colours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Styles {
    pub(super) colour: bool,
}

impl Styles {
    /// Returns how something looks.
    pub(super) fn of(self, style: Style) -> Look {
        if !self.colour {
            return Look::default();
        }
        match style {
            Style::Heading => Look::default().add_modifier(Modifier::BOLD),
            Style::Faint => Look::default().add_modifier(Modifier::DIM),
            Style::Added => Look::default().fg(Color::Green),
            Style::Removed => Look::default().fg(Color::Red),
            Style::Changed => Look::default().fg(Color::Cyan),
        }
    }

    /// Returns how what is selected looks, besides its mark.
    pub(super) fn selected(self) -> Look {
        match self.colour {
            true => Look::default().add_modifier(Modifier::REVERSED),
            false => Look::default(),
        }
    }
}

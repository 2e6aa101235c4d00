//! Colours: those of everything that is printed, where colours are wanted.

use ratatui::style::{Color, Modifier, Style as Look};

use super::super::super::output::TextStyle;

/// The styles of the screen, with or without colours.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScreenStyles {
    pub(super) colour: bool,
}

impl ScreenStyles {
    /// Returns how something looks.
    pub(super) fn look_of(self, style: TextStyle) -> Look {
        if !self.colour {
            return Look::default();
        }
        match style {
            TextStyle::Heading => Look::default().add_modifier(Modifier::BOLD),
            TextStyle::Faint => Look::default().add_modifier(Modifier::DIM),
            TextStyle::Added => Look::default().fg(Color::Green),
            TextStyle::Removed => Look::default().fg(Color::Red),
            TextStyle::Changed => Look::default().fg(Color::Cyan),
        }
    }

    /// Returns how what is selected looks, besides its mark.
    pub(super) fn look_of_selected(self) -> Look {
        if self.colour {
            Look::default().add_modifier(Modifier::REVERSED)
        } else {
            Look::default()
        }
    }
}

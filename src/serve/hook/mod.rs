//! Hooks of agents: what becomes of a call of a tool that an agent is about to make.
//!
//! A hook is asked with an event (JSON) before each call, and answers with a decision. A line of the agent's shell becomes a
//! line of the bundled shell in a home; a file outside the home does not exist; everything else is left as it is. The answer is
//! what both formats take: Claude Code's, and Codex', which refuses fields that it does not know, and an `allow` without
//! `updatedInput` (openai/codex, `codex-rs/hooks/schema/generated/pre-tool-use.command.output.schema.json`).
//!
//! A hook that fails lets the call pass. So nothing here fails: what cannot be understood is denied, with the reason.

mod decide;
mod event;
mod place;

pub use decide::answer;
pub use event::Format;
pub use place::Setting;

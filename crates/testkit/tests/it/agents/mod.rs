//! The real agents, driven directly: what every other test that drives them expects of the scripted
//! server and the stage.

mod adapters;
mod faults;
mod histories;
mod kills;
mod runs;

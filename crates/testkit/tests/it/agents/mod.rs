//! The real agents, driven directly: what the scripted server and the stage promise to every other
//! test that drives them.

mod adapters;
mod faults;
mod histories;
mod kills;
mod runs;

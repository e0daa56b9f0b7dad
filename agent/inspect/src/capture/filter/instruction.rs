//! Classic BPF instructions, and a builder of programs.

use usher_core::node::packet::Instruction;

/// Metadata of a packet, as an offset from `SKF_AD_OFF`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Info {
    Protocol = 0,
    Reception = 4,
    Interface = 8,
    Hardware = 28,
}

/// `SKF_AD_OFF`, a negative number.
pub(super) const INFO: u32 = 0xffff_f000;

pub(super) const LOAD_WORD: u16 = 0x20;
pub(super) const LOAD_WORD_X: u16 = 0x40;
pub(super) const LOAD_HALF_X: u16 = 0x48;
pub(super) const LOAD_BYTE_X: u16 = 0x50;
pub(super) const LOAD_X: u16 = 0x01;
pub(super) const ADD: u16 = 0x04;
pub(super) const ADD_X: u16 = 0x0c;
pub(super) const AND: u16 = 0x54;
pub(super) const SHIFT_LEFT: u16 = 0x64;
pub(super) const JUMP: u16 = 0x05;
pub(super) const IF_EQUAL: u16 = 0x15;
pub(super) const IF_SET: u16 = 0x45;
pub(super) const RETURN: u16 = 0x06;
pub(super) const A_TO_X: u16 = 0x07;
pub(super) const X_TO_A: u16 = 0x87;

/// A program under construction.
#[derive(Debug, Default)]
pub(super) struct Program(Vec<Instruction>);

impl Program {
    pub(super) fn finish(self) -> Vec<Instruction> {
        self.0
    }

    /// A = metadata of the packet.
    pub(super) fn load(&mut self, info: Info) {
        self.put(LOAD_WORD, INFO.wrapping_add(info as u32));
    }

    /// A = the byte at X + `at`.
    pub(super) fn load_byte(&mut self, at: u32) {
        self.put(LOAD_BYTE_X, at);
    }

    /// A = the half word at X + `at`.
    pub(super) fn load_half(&mut self, at: u32) {
        self.put(LOAD_HALF_X, at);
    }

    pub(super) fn set_x(&mut self, value: u32) {
        self.put(LOAD_X, value);
    }

    /// X += `bytes`.
    pub(super) fn skip(&mut self, bytes: u32) {
        self.put(X_TO_A, 0);
        self.put(ADD, bytes);
        self.put(A_TO_X, 0);
    }

    /// X += four times the low nibble of A.
    pub(super) fn skip_words_of_low_nibble(&mut self) {
        self.put(AND, 0x0f);
        self.put(SHIFT_LEFT, 2);
        self.put(ADD_X, 0);
        self.put(A_TO_X, 0);
    }

    /// Accepts `length` bytes of the packet.
    pub(super) fn accept(&mut self, length: u32) {
        self.put(RETURN, length);
    }

    pub(super) fn reject(&mut self) {
        self.put(RETURN, 0);
    }

    /// Rejects the packet if A has this value.
    pub(super) fn reject_if(&mut self, value: u32) {
        self.branch(IF_EQUAL, value, 0, 1);
        self.reject();
    }

    /// Rejects the packet if A has one of these bits.
    pub(super) fn reject_if_set(&mut self, bits: u32) {
        self.branch(IF_SET, bits, 0, 1);
        self.reject();
    }

    /// Runs `then` if A has this value.
    pub(super) fn when(&mut self, value: u32, then: impl FnOnce(&mut Self)) {
        self.branch(IF_EQUAL, value, 1, 0);
        let jump = self.jump();
        then(self);
        self.land(&[jump]);
    }

    /// Runs `otherwise` if A has none of these values.
    pub(super) fn either(&mut self, values: &[u32], otherwise: impl FnOnce(&mut Self)) {
        let jumps: Vec<usize> = values.iter().map(|value| self.jump_if(*value)).collect();
        otherwise(self);
        self.land(&jumps);
    }

    /// Continues if A has one of these values, and rejects the packet otherwise.
    pub(super) fn one_of(&mut self, values: impl Iterator<Item = u32>) {
        let jumps: Vec<usize> = values.map(|value| self.jump_if(value)).collect();
        self.reject();
        self.land(&jumps);
    }

    /// Continues if one of the alternatives matches, and rejects the packet otherwise.
    pub(super) fn any(&mut self, put: impl FnOnce(&mut Alternatives<'_>)) {
        let mut alternatives = Alternatives {
            program: self,
            jumps: Vec::new(),
        };
        put(&mut alternatives);
        let jumps = alternatives.jumps;
        self.reject();
        self.land(&jumps);
    }

    fn put(&mut self, code: u16, operand: u32) {
        self.branch(code, operand, 0, 0);
    }

    fn branch(&mut self, code: u16, operand: u32, jump_true: u8, jump_false: u8) {
        self.0.push(Instruction {
            code,
            jump_true,
            jump_false,
            operand,
        });
    }

    fn jump_if(&mut self, value: u32) -> usize {
        self.branch(IF_EQUAL, value, 0, 1);
        self.jump()
    }

    /// A jump without a target yet.
    fn jump(&mut self) -> usize {
        self.put(JUMP, 0);
        self.0.len() - 1
    }

    /// Sets the target of these jumps to the next instruction.
    fn land(&mut self, jumps: &[usize]) {
        let here = self.0.len();
        for jump in jumps {
            // Jumps are forward, and relative to the next instruction.
            self.0[*jump].operand = (here - jump - 1) as u32;
        }
    }
}

/// Alternatives, one of which must match.
pub(super) struct Alternatives<'a> {
    program: &'a mut Program,
    jumps: Vec<usize>,
}

impl Alternatives<'_> {
    /// Matches if the words from X + `at` on are equal under their masks.
    pub(super) fn words(&mut self, at: u32, words: &[(u32, u32)]) {
        let mut failures = Vec::new();
        for (offset, (word, mask)) in (at..).step_by(4).zip(words) {
            self.program.put(LOAD_WORD_X, offset);
            if *mask != u32::MAX {
                self.program.put(AND, *mask);
            }
            self.program.branch(IF_EQUAL, *word, 1, 0);
            failures.push(self.program.jump());
        }
        self.jumps.push(self.program.jump());
        self.program.land(&failures);
    }

    /// Matches if the half word at X + `at` is one of these values.
    pub(super) fn halves(&mut self, at: u32, values: impl Iterator<Item = u16>) {
        self.program.load_half(at);
        for value in values {
            self.jumps.push(self.program.jump_if(value.into()));
        }
    }
}

//! SHA-256 of several messages at once, for processors with wide registers (AVX2) but without instructions for
//! SHA-256: eight messages, one in each lane, take hardly longer than one. Other processors hash one message after the
//! other, by the crate.
//!
//! The results are the same; a test compares every length with the crate.

use sha2::{Digest, Sha256};

/// The number of messages best passed at once.
pub const LANES: usize = 8;

const BLOCK: usize = 64;

/// FIPS 180-4, 4.2.2, in groups of sixteen.
const ROUND: [[u32; 16]; 4] = [
    [
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174,
    ],
    [
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc,
        0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
        0x06ca6351, 0x14292967,
    ],
    [
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e,
        0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624,
        0xf40e3585, 0x106aa070,
    ],
    [
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
        0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb,
        0xbef9a3f7, 0xc67178f2,
    ],
];

/// FIPS 180-4, 5.3.3.
const INITIAL: [u32; 8] = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

/// Returns the SHA-256 of each message, in their order.
pub fn sha256(messages: &[&[u8]]) -> Vec<[u8; 32]> {
    let mut digests = Vec::with_capacity(messages.len());
    let mut rest = messages;
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") && !std::is_x86_feature_detected!("sha") {
        let mut eights = messages.chunks_exact(LANES);
        for eight in &mut eights {
            if let Ok(eight) = <&[&[u8]; LANES]>::try_from(eight) {
                // SAFETY: the processor has AVX2, as was just asked; the function is safe otherwise.
                digests.extend(unsafe { wide::digests(eight) });
            }
        }
        rest = eights.remainder();
    }
    digests.extend(rest.iter().map(|one| <[u8; 32]>::from(Sha256::digest(one))));
    digests
}

/// The number of a message's last block, which ends with its length.
fn last_block(message: &[u8]) -> usize {
    (message.len() + 8) / BLOCK
}

/// A block of a padded message (FIPS 180-4, 5.1.1); undefined after the last.
fn padded(message: &[u8], at: usize) -> [u8; BLOCK] {
    let rest = message.get(at * BLOCK..);
    if let Some(whole) = rest.and_then(|rest| rest.first_chunk()) {
        return *whole;
    }
    let mut block = [0; BLOCK];
    if let Some(rest) = rest {
        for (to, from) in block.iter_mut().zip(rest.iter().chain(&[0x80])) {
            *to = *from;
        }
    }
    if at == last_block(message)
        && let Some(end) = block.last_chunk_mut()
    {
        *end = (message.len() as u64 * 8).to_be_bytes();
    }
    block
}

/// The AVX2 version. Its instructions are safe in functions that are compiled for AVX2.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;

    use super::{INITIAL, LANES, ROUND, last_block, padded};

    /// One word of each message.
    type Words = __m256i;

    #[target_feature(enable = "avx2")]
    pub(super) fn digests(messages: &[&[u8]; LANES]) -> [[u8; 32]; LANES] {
        let mut state = INITIAL.map(|word| _mm256_set1_epi32(word.cast_signed()));
        let mut found = [[0; 32]; LANES];
        let last = messages.map(last_block);
        for at in 0..=last.into_iter().max().unwrap_or(0) {
            let mut words = words(&messages.map(|message| padded(message, at)));
            compress(&mut state, &mut words);
            if !last.contains(&at) {
                continue;
            }
            let state = state.map(|words| lanes(words));
            for (lane, (found, last)) in found.iter_mut().zip(last).enumerate() {
                if last == at {
                    for (four, words) in found.chunks_exact_mut(4).zip(&state) {
                        let word = words.get(lane).copied().unwrap_or_default();
                        four.copy_from_slice(&word.to_be_bytes());
                    }
                }
            }
        }
        found
    }

    #[target_feature(enable = "avx2")]
    fn lanes(words: Words) -> [u32; LANES] {
        // SAFETY: both types have 32 bytes, and every bit pattern is valid in both.
        unsafe { std::mem::transmute(words) }
    }

    #[target_feature(enable = "avx2")]
    fn words(blocks: &[[u8; 64]; LANES]) -> [Words; 16] {
        let mut words = [_mm256_setzero_si256(); 16];
        for (i, words) in words.iter_mut().enumerate() {
            let [a, b, c, d, e, f, g, h] = blocks.each_ref().map(|block| {
                let four = block.get(i * 4..).and_then(|rest| rest.first_chunk());
                four.map_or(0, |four| i32::from_be_bytes(*four))
            });
            *words = _mm256_setr_epi32(a, b, c, d, e, f, g, h);
        }
        words
    }

    /// FIPS 180-4, 6.2.2, for each lane.
    #[target_feature(enable = "avx2")]
    fn compress(state: &mut [Words; 8], w: &mut [Words; 16]) {
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
        for (turn, k) in ROUND.iter().enumerate() {
            macro_rules! rounds {
                ($($t:literal $t1:literal $t9:literal $t14:literal),*) => {$(
                    if turn > 0 {
                        let (one, two) = (w[$t1], w[$t14]);
                        let s0 = xor(xor(rotated::<7, 25>(one), rotated::<18, 14>(one)), _mm256_srli_epi32::<3>(one));
                        let s1 = xor(xor(rotated::<17, 15>(two), rotated::<19, 13>(two)), _mm256_srli_epi32::<10>(two));
                        w[$t] = plus(plus(w[$t], s0), plus(w[$t9], s1));
                    }
                    let s1 = xor(xor(rotated::<6, 26>(e), rotated::<11, 21>(e)), rotated::<25, 7>(e));
                    let choice = xor(g, and(e, xor(f, g)));
                    let known = plus(_mm256_set1_epi32(k[$t].cast_signed()), w[$t]);
                    let one = plus(plus(h, s1), plus(choice, known));
                    let s0 = xor(xor(rotated::<2, 30>(a), rotated::<13, 19>(a)), rotated::<22, 10>(a));
                    let majority = xor(and(a, b), and(c, xor(a, b)));
                    (h, g, f, e) = (g, f, e, plus(d, one));
                    (d, c, b, a) = (c, b, a, plus(one, plus(s0, majority)));
                )*};
            }
            rounds!(
                0 1 9 14, 1 2 10 15, 2 3 11 0, 3 4 12 1, 4 5 13 2, 5 6 14 3, 6 7 15 4, 7 8 0 5,
                8 9 1 6, 9 10 2 7, 10 11 3 8, 11 12 4 9, 12 13 5 10, 13 14 6 11, 14 15 7 12, 15 0 8 13
            );
        }
        for (old, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *old = plus(*old, new);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn plus(one: Words, two: Words) -> Words {
        _mm256_add_epi32(one, two)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn xor(one: Words, two: Words) -> Words {
        _mm256_xor_si256(one, two)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn and(one: Words, two: Words) -> Words {
        _mm256_and_si256(one, two)
    }

    /// Rotates right by `RIGHT`; `LEFT` is the complement.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotated<const RIGHT: i32, const LEFT: i32>(words: Words) -> Words {
        const { assert!(RIGHT + LEFT == 32) };
        _mm256_or_si256(
            _mm256_srli_epi32::<RIGHT>(words),
            _mm256_slli_epi32::<LEFT>(words),
        )
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    /// Tests the lanes on any processor that has AVX2, even if they are not used there.
    #[test]
    fn every_length_in_every_lane_is_as_the_crate_says() {
        let bytes: Vec<u8> = (0..700_u32).map(|i| (i * i % 251) as u8).collect();
        let expected = |one: &&[u8]| <[u8; 32]>::from(Sha256::digest(one));
        for length in 0..400 {
            // Lengths that end in the same block, in other blocks, and far behind.
            let messages: Vec<&[u8]> = (0..19)
                .map(|i| &bytes[i..i + (length + i * i * 3) % 680])
                .collect();
            let all: Vec<[u8; 32]> = messages.iter().map(expected).collect();
            assert_eq!(sha256(&messages), all, "{length}");
            #[cfg(target_arch = "x86_64")]
            if let Some(eight) = messages.first_chunk()
                && std::is_x86_feature_detected!("avx2")
            {
                // SAFETY: as above.
                assert_eq!(unsafe { wide::digests(eight) }[..], all[..LANES]);
            }
        }
        assert!(sha256(&[]).is_empty());
    }
}

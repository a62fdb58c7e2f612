use super::*;
use std::slice;

/// An image with one function, from 0x10 to 0x20, whose unwind information begins at 0x40.
fn rule_of(information: &[u8]) -> Rule {
    let mut image = vec![0; 0x40];
    image.extend(information);
    let entry = image.len()..image.len() + ENTRY;
    [0x10_u32, 0x20, 0x40].iter().for_each(|word| image.extend(word.to_le_bytes()));
    // There is other code before and after the function.
    let rows = rows(&image, entry, slice::from_ref(&(0x8..0x28)), None);
    let at = |address: u64| {
        let after = rows.partition_point(|(start, _)| *start <= address);
        after.checked_sub(1).map_or(Rule::None, |row| rows[row].1.rule())
    };
    assert_eq!((at(0x7), at(0x28)), (Rule::None, Rule::None));
    assert_eq!((at(0xf), at(0x20)), (Rule::FramePointer, Rule::FramePointer));
    assert_eq!(at(0x10), at(0x1f));
    at(0x10)
}

fn call(cfa: Cfa, fp: Fp) -> Rule {
    Rule::Call { cfa, ra: Ra, fp }
}

#[test]
fn pushes_and_memory_of_a_frame_are_the_distance_of_the_caller() {
    // push rbx; push rbp; sub rsp, 0x28
    assert_eq!(
        rule_of(&[1, 6, 3, 0, 6, 0x42, 2, 0x50, 1, 0x30, 0, 0]),
        call(Cfa::Sp(0x28 + 16 + 8), Fp::FromCfa(-24))
    );
    // sub rsp, 0x1000, in units of 8; sub rsp, 0x123458, in bytes
    assert_eq!(rule_of(&[1, 7, 2, 0, 7, 1, 0, 2]), call(Cfa::Sp(0x1008), Fp::Kept));
    assert_eq!(
        rule_of(&[1, 7, 3, 0, 7, 0x11, 0x58, 0x34, 0x12, 0, 0, 0]),
        call(Cfa::Sp(0x123460), Fp::Kept)
    );
    // A leaf that does nothing, with a handler of exceptions.
    assert_eq!(rule_of(&[1 | 1 << 3, 0, 0, 0, 9, 9, 9, 9]), call(Cfa::Sp(8), Fp::Kept));
}

#[test]
fn a_frame_pointer_is_at_its_distance() {
    // push rbp; push rsi; sub rsp, 0x70; lea rbp, [rsp + 0x30]
    let codes = [1, 9, 4, 0x35, 9, 3, 4, 0xd2, 2, 0x60, 1, 0x50];
    let rule = call(Cfa::Fp(0x70 + 16 + 8 - 0x30), Fp::FromCfa(-16));
    assert_eq!(rule_of(&codes), rule);
    // The same, with 16 bytes more behind it, which it does not count.
    let codes = [1, 13, 5, 0x35, 13, 0x12, 9, 3, 4, 0xd2, 2, 0x60, 1, 0x50, 0, 0];
    assert_eq!(rule_of(&codes), rule);
    // By another register.
    assert_eq!(rule_of(&[1, 9, 1, 0x33, 9, 3, 0, 0]), Rule::None);
}

#[test]
fn a_register_may_be_saved_by_a_move_and_others_too() {
    // sub rsp, 0x48; mov [rsp + 0x40], rbp; movaps [rsp + 0x20], xmm6
    let codes = [1, 12, 5, 0, 12, 0x68, 2, 0, 8, 0x54, 8, 0, 4, 0x82, 0, 0];
    assert_eq!(rule_of(&codes), call(Cfa::Sp(0x50), Fp::FromCfa(-16)));
}

#[test]
fn information_that_continues_another_has_both() {
    // mov [rsp + 0x10], rbx, continuing the one below
    let mut codes = vec![1 | 4 << 3, 4, 2, 0, 4, 0x34, 2, 0];
    [0_u32, 0, 0x40 + 20].iter().for_each(|word| codes.extend(word.to_le_bytes()));
    // sub rsp, 0x18
    codes.extend([1, 4, 1, 0, 4, 0x22, 0, 0]);
    assert_eq!(rule_of(&codes), call(Cfa::Sp(0x20), Fp::Kept));
    // It may not continue itself for ever.
    codes[16] = 0x40;
    assert_eq!(rule_of(&codes), Rule::None);
}

#[test]
fn what_is_damaged_or_not_known_has_no_rule() {
    assert_eq!(rule_of(&[]), Rule::None);
    assert_eq!(rule_of(&[3, 0, 0, 0]), Rule::None);
    // The frame of an interrupt; codes beyond the end.
    assert_eq!(rule_of(&[1, 0, 1, 0, 0, 10, 0, 0]), Rule::None);
    assert_eq!(rule_of(&[1, 0, 255, 0, 0, 0x30]), Rule::None);
}

#[test]
fn the_first_function_of_a_thread_has_no_caller() {
    let mut image = vec![1, 0, 0, 0];
    [0x10_u32, 0x20, 0].iter().for_each(|word| image.extend(word.to_le_bytes()));
    let rule = |at| rows(&image, 4..16, &[], Some(at))[0].1.rule();
    assert_eq!((rule(0x1f), rule(0x20)), (Rule::Outermost, call(Cfa::Sp(8), Fp::Kept)));
}

/// Entries of corosensei: where a coroutine begins, the word at `rbp` is the stack pointer of the code that
/// has resumed it.
#[test]
fn a_stack_pointer_that_is_saved_leads_to_another_stack() {
    let codes = [1, 9, 7, 5, 9, 3, 9, 0x44, 0, 0, 9, 0x50, 9, 2, 9, 0x30, 9, 0x42, 0, 0];
    let resumer = Resumer { sp: 72, return_address: 64, fp: 0 };
    assert_eq!(rule_of(&codes), Rule::Coroutine { link: 0, resumer });
    // At a distance of the stack pointer: no rule covers that.
    assert_eq!(rule_of(&[1, 4, 2, 0, 4, 0x44, 2, 0]), Rule::None);
    // A pushed stack pointer.
    assert_eq!(rule_of(&[1, 1, 1, 0, 1, 0x40, 0, 0]), Rule::None);
}

#[test]
fn each_information_of_a_chain_has_a_base_of_its_own() {
    // sub rsp, 0x20, continuing: mov [rsp + 0x10], rbp; sub rsp, 0x18
    let mut codes = vec![1 | 4 << 3, 4, 1, 0, 4, 0x32, 0, 0];
    [0_u32, 0, 0x40 + 20].iter().for_each(|word| codes.extend(word.to_le_bytes()));
    codes.extend([1, 9, 3, 0, 9, 0x54, 2, 0, 4, 0x22, 0, 0]);
    assert_eq!(rule_of(&codes), call(Cfa::Sp(0x40), Fp::FromCfa(-16)));
    // mov [rbp - 0x10], rbp of a frame whose pointer the other information has made.
    let mut codes = vec![1 | 4 << 3, 4, 2, 0x25, 4, 0x54, 2, 0];
    [0_u32, 0, 0x40 + 20].iter().for_each(|word| codes.extend(word.to_le_bytes()));
    codes.extend([1, 9, 2, 0x25, 9, 3, 4, 0x52, 0, 0]);
    // It restores `rbp` before the frame pointer is used, so nothing is known.
    assert_eq!(rule_of(&codes), Rule::None);
}

#[test]
fn an_entry_may_stand_for_another() {
    let mut image = vec![1, 0, 0, 0];
    [[0x10_u32, 0x20, 0], [0x30, 0x40, 4 | 1], [0x50, 0x60, 28 | 1]]
        .iter()
        .flatten()
        .for_each(|word| image.extend(word.to_le_bytes()));
    let rows = rows(&image, 4..40, &[], None);
    let rules = [0x10, 0x30, 0x50]
        .map(|start| rows.iter().find(|row| row.0 == start).map(|row| row.1.rule()));
    // The last entry refers to itself, so it has no rule.
    let leaf = Some(call(Cfa::Sp(8), Fp::Kept));
    assert_eq!(rules, [leaf, leaf, Some(Rule::None)]);
}

/// Damages each byte in each of some ways: no panic, no endless loop, and rows in order.
fn damage(image: &mut [u8], bytes: Range<usize>, functions: &Range<usize>) {
    let code = 0..image.len();
    for at in bytes {
        let before = image[at];
        for value in [0, 1, 4, 5, 0x21, 0x7f, 0x80, 0xff, before ^ 1, before ^ 8, !before] {
            image[at] = value;
            let rows = rows(image, functions.clone(), slice::from_ref(&code), Some(0x11));
            assert!(rows.is_sorted_by_key(|row| row.0));
            assert!(rows.windows(2).all(|pair| pair[0].0 != pair[1].0));
        }
        image[at] = before;
    }
}

#[test]
fn damaged_bytes_do_no_harm() {
    let mut image = vec![0; 0x40];
    image.extend([1 | 4 << 3, 13, 8, 0x35, 13, 0x12, 9, 3, 4, 0xd2, 2, 0x60, 1, 0x50]);
    image.extend([1, 0x54, 2, 0, 1, 0x11]);
    [0_u32, 0, 0x60].iter().for_each(|word| image.extend(word.to_le_bytes()));
    image.extend([1, 9, 4, 0, 9, 0x45, 1, 0, 0, 0, 4, 0x42, 0, 0, 0, 0]);
    let start = image.len();
    [0x10_u32, 0x20, 0x40, 0x20, 0x38, 0x60, 0x38, 0x40, 0x41]
        .iter()
        .for_each(|word| image.extend(word.to_le_bytes()));
    let functions = start..image.len();
    damage(&mut image, 0x40..functions.end, &functions);
    for end in 0..image.len() {
        for functions in [functions.clone(), 0..usize::MAX, end..0] {
            rows(&image[..end], functions, &[], None);
        }
    }
}

/// The same with this program's own image.
#[cfg(pdata)]
#[test]
fn damaged_bytes_of_a_real_image_do_no_harm() {
    let memory = crate::platform::os::Memory::open().unwrap();
    let (files, _) = crate::platform::os::loaded_files(&memory, |_, _| false).unwrap();
    let code = damaged_bytes_of_a_real_image_do_no_harm as fn() as usize as u64;
    let own = files.iter().find(|file| (file.base..file.base + file.size).contains(&code)).unwrap();
    let mut image = memory.read_image(own).unwrap();
    let all = of_file(&memory, own);
    let none = all.iter().filter(|row| row.1.rule() == Rule::None).count();
    assert!(all.len() > 1000 && none < all.len() / 2, "{none} of {}", all.len());
    // Some functions, and the information of each.
    let start = own.functions.start + ENTRY * 100;
    let functions = start..start + ENTRY * 40;
    damage(&mut image, functions.clone(), &functions);
    let entries = image[functions.clone()].chunks_exact(ENTRY).map(|it| Function::new(it).unwrap());
    let information: Vec<_> = entries.map(|entry| entry.unwind as usize).collect();
    for at in information {
        damage(&mut image, at..at + 24, &functions);
    }
}

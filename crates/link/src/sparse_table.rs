/// Places that are numbered from 0 on, of which most are never used: those that are take memory, a few at a time.
///
/// Whoever has many tables, one for each peer or path, pays for what passes and not for what might.
#[derive(Debug, Clone)]
pub struct SparseTable<T> {
    /// None at all before the first use.
    pages: Vec<Option<Box<[T; PAGE_ENTRIES]>>>,
    entries: usize,
    /// What an unused place has.
    initial: fn() -> T,
}

/// Places that are made together: a page is small beside what a flow needs in all, and finding one costs a memory access.
const PAGE_ENTRIES: usize = 8;

impl<T> SparseTable<T> {
    /// So many places, each with what `initial` returns. Nothing is allocated.
    pub fn new(entries: usize, initial: fn() -> T) -> Self {
        SparseTable { pages: Vec::new(), entries, initial }
    }

    /// What is at a place; `None` where it was never used, or beyond the last.
    pub fn get(&self, place: usize) -> Option<&T> {
        Some(&self.pages.get(place / PAGE_ENTRIES)?.as_ref()?[place % PAGE_ENTRIES])
    }

    /// What is at a place, to be changed; it is used from now on.
    ///
    /// # Panics
    /// There are not so many places.
    pub fn get_mut(&mut self, place: usize) -> &mut T {
        assert!(place < self.entries, "place {place} of {}", self.entries);
        if self.pages.is_empty() {
            self.pages.resize_with(self.entries.div_ceil(PAGE_ENTRIES), || None);
        }
        let initial = self.initial;
        let page = self.pages[place / PAGE_ENTRIES].get_or_insert_with(|| Box::new(std::array::from_fn(|_| initial())));
        &mut page[place % PAGE_ENTRIES]
    }

    /// What is at places that have memory, in their order: all that were used, and some beside them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pages.iter_mut().flatten().flat_map(|page| page.iter_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_table_is_as_one_with_all_places_and_takes_memory_for_those_in_use(
            changes in prop::collection::vec((0..100usize, any::<u8>()), 0..60)
        ) {
            let mut table = SparseTable::new(100, || 7);
            let mut model = [7; 100];
            for (place, value) in &changes {
                *table.get_mut(*place) = *value;
                model[*place] = *value;
            }
            for (place, value) in model.iter().enumerate() {
                prop_assert_eq!(table.get(place).unwrap_or(&7), value);
            }
            prop_assert!(table.iter_mut().count() <= changes.len() * PAGE_ENTRIES);
            prop_assert_eq!(table.get(1000), None);
        }
    }
}

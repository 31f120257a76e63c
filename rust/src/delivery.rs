//! The delivery ledger as Python sees it: `ottla.native.DeliveryLedger`.

mod changes;
mod hints;
mod lease;
mod ledger;
mod order;
mod page;
mod pages;
mod picked;
mod run;
mod summary;

use changes::{Refusal, Settlement};
use hints::DeliveryHints;
use ledger::Ledger;
use order::Allowance;
use page::State;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use run::Run;
use summary::Summary;

/// First and last offset, state and delivery count.
type RunTuple = (i64, i64, u8, u16);

fn tuples(runs: &[Run]) -> Vec<RunTuple> {
    runs.iter()
        .map(|run| (run.first, run.last, run.entry.state as u8, run.entry.count))
        .collect()
}

fn refused(py: Python<'_>, refusal: Refusal) -> PyErr {
    let (kind, offset) = match refusal {
        Refusal::OutOfRange(offset) => ("RecordRangeError", offset),
        Refusal::NotHeld(offset) => ("RecordNotHeldError", offset),
    };
    let make = || {
        py.import("ottla.native.errors")?
            .getattr(kind)?
            .call1((offset,))
    };
    match make() {
        Ok(exception) => PyErr::from_value(exception),
        Err(failure) => failure,
    }
}

fn owner_of(owner: u32) -> PyResult<u32> {
    if owner == 0 {
        Err(PyValueError::new_err("an owner is a number above 0"))
    } else {
        Ok(owner)
    }
}

/// What was delivered to whom, of one group in one partition.
#[pyclass(module = "ottla.native._kernel")]
struct DeliveryLedger {
    ledger: Ledger,
}

#[pymethods]
impl DeliveryLedger {
    #[new]
    #[pyo3(signature = (start_offset, /))]
    fn new(start_offset: i64) -> PyResult<Self> {
        if start_offset < 0 {
            return Err(PyValueError::new_err("a start offset is not negative"));
        }
        Ok(Self {
            ledger: Ledger::new(start_offset),
        })
    }

    #[getter]
    fn start_offset(&self) -> i64 {
        self.ledger.start()
    }

    #[getter]
    fn end_offset(&self) -> i64 {
        self.ledger.end()
    }

    #[getter]
    fn acquired_count(&self) -> u64 {
        self.ledger.acquired()
    }

    #[getter]
    fn waiting_count(&self) -> u64 {
        self.ledger.waiting()
    }

    #[getter]
    fn unfinished_count(&self) -> u64 {
        self.ledger.unfinished()
    }

    #[getter]
    fn ahead_count(&self) -> u64 {
        self.ledger.ahead()
    }

    #[getter]
    fn known_to_offset(&self) -> i64 {
        self.ledger.known_to()
    }

    #[getter]
    fn lease_count(&self) -> usize {
        self.ledger.lease_count()
    }

    #[getter]
    fn change_count(&self) -> usize {
        self.ledger.change_count()
    }

    #[getter]
    fn bytes(&self) -> usize {
        self.ledger.bytes()
    }

    fn next_deliverable(&self, from_offset: i64) -> i64 {
        self.ledger.next_deliverable(from_offset)
    }

    fn acquire(
        &mut self,
        owner: u32,
        first: i64,
        last: i64,
        records_max: u32,
        deadline_ms: i64,
    ) -> PyResult<(u64, Vec<RunTuple>)> {
        let (lease, runs) =
            self.ledger
                .acquire(owner_of(owner)?, first, last, records_max, deadline_ms);
        Ok((lease, tuples(&runs)))
    }

    fn set_order(&mut self, by_key: bool, lanes: u8) {
        self.ledger.set_order(by_key, lanes);
    }

    fn look_ahead(&mut self, hints: &DeliveryHints, first: i64, last: i64, ahead_max: u64) {
        self.ledger.look_ahead(hints, first, last, ahead_max);
    }

    fn lane_heads(&self) -> Vec<i64> {
        self.ledger.lane_heads()
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (owner, lane, first, last, *, records_max, new_max, deadline_ms))]
    fn acquire_lane(
        &mut self,
        owner: u32,
        lane: u8,
        first: i64,
        last: i64,
        records_max: u32,
        new_max: u64,
        deadline_ms: i64,
    ) -> PyResult<(u64, Vec<RunTuple>)> {
        let allowance = Allowance {
            records: records_max,
            new: new_max,
            ahead: 0,
        };
        let (lease, runs) =
            self.ledger
                .acquire_lane(owner_of(owner)?, lane, first, last, allowance, deadline_ms);
        Ok((lease, tuples(&runs)))
    }

    fn learn(&mut self, hints: &DeliveryHints) {
        self.ledger.learn(hints);
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (owner, hints, first, last, *, records_max, new_max, ahead_max, deadline_ms))]
    fn acquire_in_order(
        &mut self,
        owner: u32,
        hints: &DeliveryHints,
        first: i64,
        last: i64,
        records_max: u32,
        new_max: u64,
        ahead_max: u64,
        deadline_ms: i64,
    ) -> PyResult<(u64, Vec<RunTuple>)> {
        let allowance = Allowance {
            records: records_max,
            new: new_max,
            ahead: ahead_max,
        };
        let (lease, runs) = self.ledger.acquire_in_order(
            owner_of(owner)?,
            hints,
            first,
            last,
            allowance,
            deadline_ms,
        );
        Ok((lease, tuples(&runs)))
    }

    fn give_up(&mut self, first: i64, last: i64) {
        self.ledger.give_up(first, last);
    }

    fn settle(
        &mut self,
        py: Python<'_>,
        owner: u32,
        runs: Vec<(i64, i64, u8)>,
        deliveries_max: u16,
        not_before_ms: i64,
    ) -> PyResult<(u64, Vec<RunTuple>)> {
        let runs = runs
            .into_iter()
            .map(|(first, last, number)| {
                Settlement::of(number)
                    .map(|settlement| (first, last, settlement))
                    .ok_or_else(|| PyValueError::new_err("a settlement is 0 to 3"))
            })
            .collect::<PyResult<Vec<_>>>()?;
        self.ledger
            .settle(owner_of(owner)?, &runs, deliveries_max, not_before_ms)
            .map(|settled| (settled.change, tuples(&settled.runs)))
            .map_err(|refusal| refused(py, refusal))
    }

    fn extend(
        &mut self,
        py: Python<'_>,
        owner: u32,
        runs: Vec<(i64, i64)>,
        deadline_ms: i64,
    ) -> PyResult<u64> {
        self.ledger
            .extend(owner_of(owner)?, &runs, deadline_ms)
            .map_err(|refusal| refused(py, refusal))
    }

    fn claim(
        &mut self,
        owner: u32,
        offsets: Vec<i64>,
        deadline_ms: i64,
        deliveries: u16,
    ) -> PyResult<(u64, Vec<RunTuple>)> {
        let (lease, runs) = self
            .ledger
            .claim(owner_of(owner)?, &offsets, deadline_ms, deliveries);
        Ok((lease, tuples(&runs)))
    }

    fn start_after(&self, changes: Vec<u64>) -> i64 {
        self.ledger.start_after(&changes)
    }

    fn commit(&mut self, change: u64) -> u64 {
        self.ledger.commit(change)
    }

    fn roll_back(&mut self, change: u64, deliveries_max: u16) -> Vec<RunTuple> {
        tuples(&self.ledger.roll_back(change, deliveries_max))
    }

    fn end_lease(&mut self, lease: u64, deliveries_max: u16) -> Vec<RunTuple> {
        tuples(&self.ledger.end_lease(lease, deliveries_max))
    }

    fn release_owner(
        &mut self,
        owner: u32,
        deliveries_max: u16,
        records_max: usize,
    ) -> PyResult<(Vec<RunTuple>, bool)> {
        let (released, is_all) =
            self.ledger
                .release_owner(owner_of(owner)?, deliveries_max, records_max);
        Ok((tuples(&released), is_all))
    }

    fn take_ended_leases(&mut self) -> Vec<u64> {
        self.ledger.take_ended()
    }

    fn move_start(&mut self, offset: i64) {
        self.ledger.move_start(offset);
    }

    fn load(&mut self, runs: Vec<RunTuple>) -> PyResult<()> {
        for (first, last, state, count) in runs {
            let fits =
                State::of(state).is_some_and(|state| self.ledger.load(first, last, state, count));
            if !fits {
                return Err(PyValueError::new_err(format!(
                    "the run {first} to {last} in state {state} does not follow the runs before it"
                )));
            }
        }
        self.ledger.settle_start();
        Ok(())
    }

    fn runs(&self, from_offset: i64, runs_max: usize) -> Vec<RunTuple> {
        tuples(&self.ledger.runs(from_offset, runs_max))
    }

    fn holder(&self, offset: i64) -> Option<(u32, i64)> {
        self.ledger.holder(offset)
    }

    fn summary(&self) -> (u64, u64, u16, i64, u16) {
        let Summary {
            returned,
            redelivered,
            deliveries_most,
            oldest,
            oldest_deliveries,
        } = Summary::of(&self.ledger);
        (
            returned,
            redelivered,
            deliveries_most,
            oldest,
            oldest_deliveries,
        )
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DeliveryHints>()?;
    module.add_function(wrap_pyfunction!(picked::pick_records, module)?)?;
    module.add_class::<DeliveryLedger>()
}

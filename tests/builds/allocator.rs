use older as _;
use quiet as _;
#[global_allocator]
static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();

"""The parts of the live process: asyncio on raw ASGI. Nothing here runs in web, worker, beat or watcher."""

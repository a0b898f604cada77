"""The only sockets: a link's asyncio end, its blocking end, and the door that other processes knock at."""

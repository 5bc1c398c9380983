-- The rows of wait_times(), of all matched collectives.
from wait_times('matched_collectives', 'rank_clocks')

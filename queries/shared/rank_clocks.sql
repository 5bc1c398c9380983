-- The rows of rank_offsets(), of all matched collectives.
from rank_offsets('matched_collectives')

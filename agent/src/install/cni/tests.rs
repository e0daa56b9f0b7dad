mod crash;
mod host;
mod life;
mod obstacle;
mod race;

mod crash;
mod foreign;
mod host;
mod life;
mod obstacle;
mod race;
